"""The page of one event: its facts, its card in full, and its three views, with what differs between them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.formats import spent
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.show.blocks import attachments, facts, note, plain
from tooltap.daemon.show.markup import clock, code, html
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.skins.html import card_html
from tooltap.daemon.show.timeline import nest
from tooltap.daemon.show.tools.edits import changes_body
from tooltap.daemon.show.tree import tree
from tooltap.daemon.show.typed_text import typed_text
from tooltap.daemon.views.select import View
from tooltap.daemon.web.http.errors import WebError, status_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.calls import of_call, states_of
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.session_head import name_of
from tooltap.daemon.web.page.timeline import SEARCH_BYTES
from tooltap.daemon.web.page.views.compared import Block, Pair, views_of
from tooltap.daemon.web.page.views.whole_event import whole_event
from tooltap.protocol.filters import Filter
from tooltap.protocol.requests import EventRequest

__all__ = ["event_page"]

VIEWS: tuple[tuple[View, str], ...] = (
    ("assistant", "what the model saw"),
    ("display", "what the user sees"),
    ("raw", "all there is, the provider's own object included"),
)
WHOLE_BYTES = 524_288
"""Bytes of output bodies that are read to compare the views."""
SHOWN = 65_536
"""Characters of a text that are shown."""
LONG = 24
"""Lines up to which a text is shown in full height."""
UNKNOWN = "Unknown: the agent's stream does not state what the model saw."
INFERRED = "Unknown: tooltap inferred this result, because the agent gave none."
NOTHING = "Nothing."
BOUNDED = Markup('<div class="bounded" tabindex="0" role="group" aria-label="text">{}</div>')
VERDICTS = {"same": "Same", "form": "Another form", "differs": "Differs", "unknown": "Not compared"}
# Control characters that JSON does not escape, and characters that change the writing direction.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


class _Section(NamedTuple):
    """What one of the three saw."""

    name: str
    title: str
    verdict: str
    """`same`, `form`, `differs` or `unknown`, compared with what the model saw; empty for that itself."""
    word: str
    sentence: str
    body: Markup
    folded: Markup
    """What is shown on request."""
    summary: str = ""
    """Of what is folded."""


class _Json(NamedTuple):
    name: View
    meaning: str
    html: Markup


async def event_page(services: Services, fragments: Fragments, seq: int) -> dict[str, Any]:
    """Return the values for its template. Raises `WebError` and `JournalError`."""
    found = {view: await _view(services, seq, view) for view, _ in VIEWS}
    event = found["raw"]
    session = Filter(session=(event["session"],))
    rows = await services.journal.sessions(limit=1, wanted=SessionFilter(session=(event["session"],)))
    stored = await services.journal.event(seq)
    parts = [] if stored is None else await of_call(services.journal, stored)
    states = await states_of(services.journal, parts, SEARCH_BYTES)
    shown = await fragments.of(sorted({*parts, *states.results}), lambda _: "full")
    before, _ = await services.journal.read_back(seq, session, limit=1)
    after, _ = await services.journal.read(seq, session, max_bytes=1)
    whole = await whole_event(event, services.journal, WHOLE_BYTES)

    def rendered() -> dict[str, Any]:
        return {
            "cards": [card_html(card) for card in nest(shown, states.of_cards)],
            "sections": _sections(whole, fragments.output_url),
            "json": [_Json(name, meaning, code(pretty(found[name]), language="json")) for name, meaning in VIEWS],
            "facts": html(facts(_facts(event))),
            "bodies": html(facts(_bodies(event, fragments.output_url))),
        }

    return {
        "event": event,
        "title": name_of(rows[0]) if rows else event["session"],
        "previous": _seq(before),
        "next": _seq(after),
        **await anyio.to_thread.run_sync(rendered),
    }


def pretty(value: Any) -> str:
    """Format JSON with indentation, and escape invisible characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _facts(event: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    happy = (event.get("input") or event.get("output") or {}).get("_happy") or {}
    raw_name = happy.get("rawToolName")
    yield "agent", event["provider"]
    yield "at", _time(event["ts"]) if "ts" in event else None
    yield "tool", event.get("name")
    yield "called by the agent", raw_name if raw_name != event.get("name") else None
    yield "status", event.get("status")
    yield "took", spent(event.get("durationMs"))
    yield "subagent", event.get("agent")
    yield "turn", event.get("turn")
    yield "inferred", "yes" if event.get("synthetic") else None
    yield "line", f"{event['line']:,} of {event['stream']}" if event["line"] else event["stream"]
    yield "id", event["id"]


def _time(milliseconds: int) -> Markup:
    return Markup('<time data-ts="{}">{}</time>').format(milliseconds, clock(milliseconds))


def _bodies(event: dict[str, Any], url: Callable[[str], str]) -> Iterator[tuple[str, Markup]]:
    """Links to the whole of what is cut in the event."""
    for pointer, ref in (event.get("outputs") or {}).items():
        whole = Markup('<a href="{}">the whole: {:,} bytes</a>').format(url(ref["outputId"]), ref["bytes"])
        yield pointer.removeprefix("/").replace("/", " › "), whole


def _sections(event: dict[str, Any], url: Callable[[str], str]) -> list[_Section]:
    views = views_of(event)
    if views is None:
        return []
    look = Look("full", url)
    is_call = event["kind"] == "tool-call"
    model = "What the model asked for" if is_call else "What the model saw"
    if views.model is None:
        body = html(note(INFERRED if event.get("synthetic") else UNKNOWN))
        first = _Section("model", model, "unknown", "Unknown", "", body, Markup())
    else:
        first = _Section("model", model, "", "", "", _blocks(views.model, look), Markup())
    user = _section("user", "What the user sees", views.with_user, _blocks(views.user, look), look)
    pair = views.with_provider
    object_ = html(tree(views.provider, look)) if views.provider else Markup()
    provider = _section("provider", "What the provider sent", pair, object_, look)
    return [first, user, provider._replace(summary="all that the provider sent")]


def _section(name: str, title: str, pair: Pair, whole: Markup, look: Look) -> _Section:
    """`whole`: all that this one saw. It is folded if a difference is shown, and left out if there is none."""
    difference = Markup() if pair.change is None else html(changes_body([pair.change], look))
    is_folded = pair.verdict == "same" or pair.change is not None or name == "provider"
    if pair.verdict == "same" and name == "user":
        whole = Markup()
    return _Section(
        name,
        title,
        pair.verdict,
        VERDICTS[pair.verdict],
        pair.sentence,
        difference if is_folded else whole,
        whole if is_folded else Markup(),
        "all that the user sees",
    )


def _blocks(blocks: list[Block], look: Look) -> Markup:
    return Markup().join(_block(block, look) for block in blocks) or html(note(NOTHING))


def _block(block: Block, look: Look) -> Markup:
    if block.stored is not None:
        return html(attachments([block.stored], look))
    text = block.text[:SHOWN]
    is_typed = block.mime_type or block.path
    body = typed_text(text, look, mime_type=block.mime_type, path=block.path) if is_typed else plain(text, look)
    shown = html(body)
    if text.count("\n") > LONG:
        shown = BOUNDED.format(shown)
    if len(block.text) > SHOWN:
        return shown + html(note(f"This is its beginning: {SHOWN:,} of {len(block.text):,} characters."))
    return shown + html(note("This is only the beginning; the event contains no more.")) if block.is_cut else shown


async def _view(services: Services, seq: int, view: View) -> dict[str, Any]:
    reply = await services.requests.reply_to(EventRequest(id=None, seq=seq, view=view))
    if reply.error is not None:
        raise WebError(status_of(reply.error.code), reply.error.code, reply.error.message)
    event: dict[str, Any] = reply.result["event"]
    return event


def _seq(events: list[StoredEvent]) -> int | None:
    return events[0].seq if events else None
