"""The page of one event: its facts, its card in full, and its three views, with the differences between them.

The views are what the model saw (`assistant`), what the user sees (`display`) and what the provider sent (`raw`). A
call is compared by its arguments, line by line; a result by its text. Texts that were cut in the event are read from
its output bodies, up to a limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import anyio
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.formats import counted, spent
from tooltap.daemon.journal.interface import RemovedBody, StoredEvent, output_ids
from tooltap.daemon.sessions.listing import name_of
from tooltap.daemon.sessions.stored import SessionEvents
from tooltap.daemon.show.blocks import RenderContext, attachments, facts, note, plain
from tooltap.daemon.show.bodies import milliseconds_of, rest_of, typed_text
from tooltap.daemon.show.diff import FileDiff, between, near
from tooltap.daemon.show.markup import body_html, clock, code
from tooltap.daemon.show.skins.html import card_html
from tooltap.daemon.show.timeline import nest
from tooltap.daemon.show.tools.files import changes_body
from tooltap.daemon.show.tree import ValuePath, lines_of, objects_in, texts_in, tree
from tooltap.daemon.views.select import (
    UserView,
    View,
    result_text,
    user_view_of,
    whole_event,
    with_later_view,
    without_meta,
)
from tooltap.daemon.web.http.requests import WebError, status_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, row_of, seq_of
from tooltap.daemon.web.page.timeline import SEARCH_BYTES, of_call, states_of
from tooltap.protocol.events import Attachment, Display
from tooltap.protocol.frames import EventRequest
from tooltap.protocol.model_view import model_blocks

TEXT_KINDS = ("message", "reasoning")
CALL_KINDS = ("tool-call", "tool-result")
COMPARED = 1_048_576
"""Maximum characters of texts to be diffed; longer ones are only tested for equality."""
LONG_PLACE = 100_000
"""Characters of a provider's text whose lines are counted, to find the text nearest to the model's."""
CUT = re.compile(r"…\(truncated \d+ chars\)\Z")
"""End of a truncated text in the event's copy of the provider's object."""
ADDED = "+ marks what only the model saw, − marks what only {}."
NAMES = "+ marks lines as tooltap writes them, − marks lines as the provider writes them."


class Block(NamedTuple):
    """A block of a view: a text, or an attachment that is stored elsewhere."""

    text: str = ""
    stored: Attachment | None = None
    is_cut: bool = False
    """True if the event has only the beginning of the text."""
    mime_type: str = ""
    """MIME type of the text, where known."""
    path: str = ""


class Pair(NamedTuple):
    """The comparison of another view with the model's."""

    verdict: Literal["same", "form", "differs", "unknown"]
    """`form`: the same values, written in another form."""
    sentence: str
    change: FileDiff | None = None
    """Diff from the other view to the model's; None if they are the same, share no line, or are too long."""


class Views(NamedTuple):
    model: list[Block] | None
    """None if the stream does not state it."""
    user: list[Block]
    provider: Any
    """The provider's object; None if the event has none."""
    with_user: Pair
    with_provider: Pair


def views_of(event: dict[str, Any]) -> Views | None:
    """Compare the views of an event that was completed by `whole_event`. Return None for a kind of event that is not
    text of the conversation."""
    kind = event["kind"]
    if kind in TEXT_KINDS:
        blocks = [Block(event["text"], is_cut=_is_cut(event, "/text")), *_stored(event.get("attachments"))]
        same = Pair("same", "Same as what the model saw.")
        return Views(
            blocks, blocks, None, same, Pair("same", "Same as what the model saw: the text is the provider's.")
        )
    if kind not in CALL_KINDS:
        return None
    payload: dict[str, Any] = event["input" if kind == "tool-call" else "output"]
    raw = payload.get("_raw") or None
    if kind == "tool-call":
        return _of_call(payload, raw, is_hidden=event.get("hidden", False))
    seen = user_view_of(event)
    user = _user_blocks(event, seen)
    if (model := _model_blocks(event)) is None:
        unknown = Pair("unknown", "Not compared: the stream does not state what the model saw.")
        return Views(None, user, raw, unknown, unknown)
    plain = _model_blocks(event, numbers=False)
    return Views(model, user, raw, _with_user(event, seen, model, plain or [], user), _with_provider(model, raw))


# -- a call ---------------------------------------------------------------------------------------------------------


def _of_call(payload: dict[str, Any], raw: Any, *, is_hidden: bool) -> Views:
    own = without_meta(payload)
    blocks = [Block(lines_of(own))]
    if is_hidden:
        return Views(blocks, [], raw, Pair("differs", "Nothing: the call is not shown."), _arguments(own, raw))
    return Views(blocks, blocks, raw, Pair("same", "Same as what the model asked for."), _arguments(own, raw))


def _arguments(own: dict[str, Any], raw: Any) -> Pair:
    if raw is None:
        return Pair("unknown", "The event has no copy of the provider's object.")
    if not own:
        return Pair("unknown", "The call has no arguments.")
    places = objects_in(raw)
    if (found := next((one for one in places if without_meta(one.value) == own), None)) is not None:
        return Pair("same", f"Same as what the model asked for{_at(found)}.")
    nearest = max(places, key=lambda one: _shared(own, one.value), default=None)
    if nearest is None or not _shared(own, nearest.value):
        return Pair("differs", "The provider's object has none of these arguments.")
    hunks, note = between(lines_of(nearest.value), lines_of(own))
    change = FileDiff.of("", "", near(hunks), note=f"{NAMES} {note}".strip())
    return Pair("form", f"The provider names or writes it differently{_at(nearest)}.", change)


def _shared(own: dict[str, Any], other: dict[str, Any]) -> int:
    """Score the arguments that two objects share: two for an equal value, one for an equal name."""
    values = [_key(one) for one in other.values()]
    return sum(2 * (_key(value) in values) + (name in other) for name, value in own.items())


def _key(value: Any) -> bytes:
    return msgspec.json.encode(value)


# -- a result -------------------------------------------------------------------------------------------------------


def _model_blocks(event: dict[str, Any], *, numbers: bool = True) -> list[Block] | None:
    if event.get("assistantView") == "unknown":
        return None
    blocks = model_blocks(event, lambda _: None, numbers=numbers)
    if blocks is None:  # an event of an older version, unless tooltap inferred it
        return None if event.get("synthetic") else [_output_block(event), *_stored(event.get("attachments"))]
    return [_model_block(block) for block in blocks]


def _model_block(block: dict[str, Any]) -> Block:
    if "text" in block:
        return Block(block["text"], is_cut=bool(block.get("incomplete")))
    kind = str(block.get("type"))
    mime_type = block.get("mimeType") or ("image/png" if "image" in kind else kind)  # it is served as what it is
    return Block(stored=Attachment(mime_type=mime_type, output_id=block.get("outputId"), uri=block.get("uri")))


def _user_blocks(event: dict[str, Any], seen: UserView) -> list[Block]:
    if seen.remark:
        return []
    blocks = [] if seen.display is None else list(_display_blocks(event, seen.display))
    if seen.output is not None:
        output = _output_block(event)
        is_said = not seen.caption or seen.caption.strip() in output.text
        blocks = [output] if is_said else [Block(seen.caption.strip()), output]
    return [*blocks, *(Block(stored=one) for one in seen.attachments or ())]


def _display_blocks(event: dict[str, Any], display: Display) -> Iterator[Block]:
    mime_type = display.mime_type or ""
    if display.text is not None:
        yield Block(display.text, is_cut=_is_cut(event, "/display/text"), mime_type=mime_type, path=display.path or "")
    if display.cut:
        yield Block(rest_of(display.cut))
    if display.output_id is not None:
        stored = Attachment(mime_type=mime_type or "text/plain", output_id=display.output_id, bytes=display.bytes)
        yield Block(stored=stored)


def _output_block(event: dict[str, Any]) -> Block:
    output: dict[str, Any] = event["output"]
    text = result_text(output, None).text
    if text == msgspec.json.encode(own := without_meta(output)).decode():
        return Block(lines_of(own) if own else "")
    return Block(text, is_cut=any(one != "_raw" and _is_cut(event, f"/output/{one}") for one in output))


def _is_cut(event: dict[str, Any], pointer: str) -> bool:
    return any(one == pointer or one.startswith(f"{pointer}/") for one in event.get("outputs") or ())


def _stored(attachments: Iterable[dict[str, Any]] | None) -> list[Block]:
    return [Block(stored=msgspec.convert(one, Attachment)) for one in attachments or ()]


def _with_user(
    event: dict[str, Any], seen_by_user: UserView, model: list[Block], plain: list[Block], user: list[Block]
) -> Pair:
    if seen_by_user.remark:
        return Pair("differs", "Nothing: the result is not shown.")
    if not model:
        return Pair("differs" if user else "same", "The model did not see it." if user else "Neither saw anything.")
    seen, shown = _text(model), _text(user)
    missing = _missing(_body_ids(model), _body_ids(user))
    if seen == shown:
        return Pair("differs", missing) if missing else Pair("same", "Same as what the model saw.")
    if seen.strip() == shown.strip():
        return Pair("same", "Same as what the model saw, but for white space at its ends.")
    if _text(plain).strip() == shown.strip():
        return Pair("same", "Same as what the model saw, without the numbers of its lines.")
    pair = _difference(shown, _text(plain), "the user sees", missing)
    is_shown = "display" not in event and not event.get("modelView", {}).get("differs") and not missing
    return _in_another_form(pair) if is_shown else pair


def _with_provider(model: list[Block], raw: Any) -> Pair:
    if raw is None:
        return Pair("unknown", "The event has no copy of the provider's object.")
    seen = _text(model)
    places = texts_in(raw)
    if not seen:
        return Pair("unknown", "What the model saw of it has no text.")
    if (found := next((one for one in places if one.value == seen), None)) is not None:
        return Pair("same", f"Same as what the model saw{_at(found)}.")
    if (found := next((one for one in places if one.value.strip() == seen.strip()), None)) is not None:
        return Pair("same", f"Same as what the model saw{_at(found)}, but for white space at its ends.")
    lines = set(seen.split("\n"))
    nearest = max(places, key=lambda one: len(lines & set(one.value[:LONG_PLACE].split("\n"))), default=None)
    if nearest is None:
        return Pair("differs", "The provider's object has no text.")
    if (cut := CUT.search(nearest.value)) and seen.startswith(nearest.value[: cut.start()]):
        return Pair("same", f"Same as what the model saw{_at(nearest)}, as far as the event has a copy of it.")
    return _difference(nearest.value, seen, "the provider sent", at=_at(nearest))


def _in_another_form(pair: Pair) -> Pair:
    """Replace a difference that is only one of form: the user sees the result's values, and the model saw a text."""
    return pair._replace(verdict="form", sentence="The same result in another form: its values, not the model's text.")


def _difference(other: str, seen: str, what: str, missing: str = "", *, at: str = "") -> Pair:
    if not any(line.strip() for line in set(other.split("\n")) & set(seen.split("\n"))):
        return Pair("differs", f"A different text than the model saw: no line is the same. {missing}".strip())
    if max(len(other), len(seen)) > COMPARED:
        return Pair("differs", f"A different text than the model saw, too long to compare. {missing}".strip())
    hunks, note = between(other, seen)
    change = FileDiff.of("", "", near(hunks), note=f"{ADDED.format(what)} {note}".strip())
    return Pair("differs", f"Differs from what the model saw{at}. {missing}".strip(), change)


def _missing(model: set[str], user: set[str]) -> str:
    """Say which images and files only one side has. Equal counts are taken as equal: an image may be stored under two
    ids."""
    if len(model) == len(user):
        return ""
    sides = ((model - user, "the model saw"), (user - model, "the user sees"))
    counts = [f"Only {who} {counted(len(only), 'image or file', 'images or files')}." for only, who in sides if only]
    return " ".join(counts)


def _text(blocks: Sequence[Block]) -> str:
    """Join all texts; each block begins a line."""
    text = ""
    for block in blocks:
        text += ("\n" if text and block.text and not text.endswith("\n") else "") + block.text
    return text


def _body_ids(blocks: Sequence[Block]) -> set[str]:
    stored = [block.stored for block in blocks if block.stored is not None]
    return {one.output_id or one.uri or one.mime_type for one in stored}


def _at(place: ValuePath) -> str:
    return f" ({place.path})" if place.path else ""


VIEWS: tuple[tuple[View, str], ...] = (
    ("assistant", "what the model saw"),
    ("display", "what the user sees"),
    ("raw", "all there is, the provider's own object included"),
)
WHOLE_BYTES = 524_288
"""Maximum bytes of output bodies that are read to compare the views."""
SHOWN = 65_536
"""Maximum characters of a text that are shown."""
LONG = 24
"""Maximum lines of a text that is shown in full height."""
UNKNOWN = "Unknown: the agent's stream does not state what the model saw."
INFERRED = "Unknown: tooltap inferred this result, because the agent gave none."
NOTHING = "Nothing."
BOUNDED = Markup('<div class="bounded" tabindex="0" role="group" aria-label="text">{}</div>')
VERDICTS = {"same": "Same", "form": "Another form", "differs": "Differs", "unknown": "Not compared"}
# Control characters that JSON does not escape, and characters that change the writing direction.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


class _Section(NamedTuple):
    """The section of one of the three views."""

    name: str
    title: str
    verdict: str
    """`same`, `form`, `differs` or `unknown`, compared with the model's view; for that itself, empty or `unknown`."""
    word: str
    sentence: str
    body: Markup
    folded: Markup
    """Content that is collapsed at first."""
    summary: str = ""
    """Label of the collapsed content."""


class _Json(NamedTuple):
    name: View
    meaning: str
    html: Markup


def routes(services: Services, fragments: Fragments) -> list[BaseRoute]:
    async def page(request: Request) -> Response:
        values = await event_page(services, fragments, seq_of(request))
        return await html("event.html", preferences=preferences_of(request), **values)

    return [PageRoute("/events/{seq:int}", page)]


async def event_page(services: Services, fragments: Fragments, seq: int) -> dict[str, Any]:
    """Return the values for the template of an event's page. Raises `WebError` and `JournalError`."""
    found = {view: await _view(services, seq, view) for view, _ in VIEWS}
    event = found["raw"]
    session = await SessionEvents.of(services.journal, (event["session"],))
    row = await row_of(services.journal, event["session"])
    stored = await services.journal.event(seq)
    parts = [] if stored is None else await of_call(services.journal, stored)
    states = await states_of(services.journal, parts, SEARCH_BYTES)
    shown = await fragments.of(sorted({*parts, *states.results}), lambda _: "full")
    before, _ = await session.read_back(seq, limit=1)
    after, _ = await session.read(seq, max_bytes=1)
    seen = await with_later_view(event, services.journal)
    whole = await whole_event(seen, services.journal, WHOLE_BYTES)
    removed = await services.journal.removed_bodies([] if stored is None else output_ids(stored.body))

    def rendered() -> dict[str, Any]:
        return {
            "cards": [card_html(card) for card in nest(shown, states.of_cards)],
            "sections": _sections(whole, fragments.output_url),
            "json": [_Json(name, meaning, code(pretty(found[name]), language="json")) for name, meaning in VIEWS],
            "facts": body_html(facts(_facts(event, _took(stored, parts)))),
            "bodies": body_html(facts(_bodies(event, fragments.output_url, removed))),
        }

    return {
        "event": event,
        "title": event["session"] if row is None else name_of(row),
        "previous": _seq(before),
        "next": _seq(after),
        **await anyio.to_thread.run_sync(rendered),
    }


def pretty(value: Any) -> str:
    """Format JSON with indentation, and escape invisible characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _took(stored: StoredEvent | None, parts: Sequence[StoredEvent]) -> int | None:
    """Return how long the call of a result took; `parts`: the events of the call."""
    if stored is None or stored.head.kind != "tool-result":
        return None
    began = next((one.head.ts for one in parts if one.head.kind == "tool-call"), None)
    return milliseconds_of(stored.head, began)


def _facts(event: dict[str, Any], took: int | None) -> Iterator[tuple[str, Any]]:
    happy = (event.get("input") or event.get("output") or {}).get("_happy") or {}
    raw_name = happy.get("rawToolName")
    yield "agent", event["provider"]
    yield "at", _time(event["ts"]) if "ts" in event else None
    yield "tool", event.get("name")
    yield "called by the agent", raw_name if raw_name != event.get("name") else None
    yield "status", event.get("status")
    yield "took", spent(took if event["kind"] == "tool-result" else event.get("durationMs"))
    yield "waited for the user", spent(event.get("waitMs"))
    yield "subagent", event.get("agent")
    yield "turn", event.get("turn")
    yield "inferred", "yes" if event.get("synthetic") else None
    yield "line", f"{event['line']:,} of {event['stream']}" if event["line"] else event["stream"]
    yield "id", event["id"]


def _time(milliseconds: int) -> Markup:
    return Markup('<time data-ts="{}">{}</time>').format(milliseconds, clock(milliseconds))


def _bodies(
    event: dict[str, Any], url: Callable[[str], str], removed: Mapping[str, RemovedBody]
) -> Iterator[tuple[str, Markup]]:
    """Yield the place of each truncated value of the event, and a link to its output body, or why it is gone."""
    for pointer, ref in (event.get("outputs") or {}).items():
        if (gone := removed.get(ref["outputId"])) is not None:
            whole = Markup("the whole, {:,} bytes, {}").format(ref["bytes"], gone.reason)
        else:
            whole = Markup('<a href="{}">the whole: {:,} bytes</a>').format(url(ref["outputId"]), ref["bytes"])
        yield pointer.removeprefix("/").replace("/", " › "), whole


def _sections(event: dict[str, Any], url: Callable[[str], str]) -> list[_Section]:
    views = views_of(event)
    if views is None:
        return []
    context = RenderContext("full", url)
    is_call = event["kind"] == "tool-call"
    model = "What the model asked for" if is_call else "What the model saw"
    if views.model is None:
        body = body_html(note(INFERRED if event.get("synthetic") else UNKNOWN))
        first = _Section("model", model, "unknown", "Unknown", "", body, Markup())
    else:
        first = _Section("model", model, "", "", "", _blocks(views.model, context), Markup())
    user = _section("user", "What the user sees", views.with_user, _blocks(views.user, context), context)
    pair = views.with_provider
    object_ = body_html(tree(views.provider, context)) if views.provider else Markup()
    provider = _section("provider", "What the provider sent", pair, object_, context)
    return [first, user, provider._replace(summary="all that the provider sent")]


def _section(name: str, title: str, pair: Pair, whole: Markup, context: RenderContext) -> _Section:
    """`whole`: all of the view. It is collapsed if a difference is shown, and left out if the user sees what the model
    saw."""
    difference = Markup() if pair.change is None else body_html(changes_body([pair.change], context))
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


def _blocks(blocks: list[Block], context: RenderContext) -> Markup:
    return Markup().join(_block(block, context) for block in blocks) or body_html(note(NOTHING))


def _block(block: Block, context: RenderContext) -> Markup:
    if block.stored is not None:
        return body_html(attachments([block.stored], context))
    text = block.text[:SHOWN]
    is_typed = block.mime_type or block.path
    body = typed_text(text, context, mime_type=block.mime_type, path=block.path) if is_typed else plain(text, context)
    shown = body_html(body)
    if text.count("\n") > LONG:
        shown = BOUNDED.format(shown)
    if len(block.text) > SHOWN:
        return shown + body_html(note(f"This is its beginning: {SHOWN:,} of {len(block.text):,} characters."))
    return shown + body_html(note("This is only the beginning; the event contains no more.")) if block.is_cut else shown


async def _view(services: Services, seq: int, view: View) -> dict[str, Any]:
    reply = await services.requests.reply_to(EventRequest(id=None, seq=seq, view=view))
    if reply.error is not None:
        raise WebError(status_of(reply.error.code), reply.error.code, reply.error.message)
    event: dict[str, Any] = reply.result["event"]
    return event


def _seq(events: list[StoredEvent]) -> int | None:
    return events[0].seq if events else None
