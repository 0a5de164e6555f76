"""The page of one event: its card in full, and its three views (`display`, `assistant`, `raw`) side by side."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.views.of_event import View
from tooltap.daemon.web.html.markup import code
from tooltap.daemon.web.http.errors import WebError, status_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.calls import of_call, states_of
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.nesting import nest
from tooltap.daemon.web.page.rows import html_of
from tooltap.protocol.filters import Filter
from tooltap.protocol.requests import EventRequest

__all__ = ["event_page"]

VIEWS: tuple[tuple[View, str], ...] = (
    ("display", "what the user sees"),
    ("assistant", "what the model saw"),
    ("raw", "all there is, the provider's own words included"),
)
# Control characters that JSON does not escape, and characters that change the writing direction.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


class ShownView(NamedTuple):
    name: View
    meaning: str
    json: Markup


async def event_page(services: Services, fragments: Fragments, seq: int) -> dict[str, Any]:
    """Return the values for its template. Raises `WebError` and `JournalError`."""
    found = [await _view(services, seq, view) for view, _ in VIEWS]
    raw = found[-1]
    session = Filter(session=(raw["session"],))
    stored = await services.journal.event(seq)
    parts = [] if stored is None else await of_call(services.journal, stored)
    states = await states_of(services.journal, parts, services.config.web.search_bytes)
    shown = await fragments.of(sorted({*parts, *states.results}), lambda _: "full")
    before, _ = await services.journal.read_back(seq, session, limit=1)
    after, _ = await services.journal.read(seq, session, max_bytes=1)

    def rendered() -> tuple[list[Markup], list[ShownView]]:
        views = [ShownView(name, meaning, _coloured(one)) for (name, meaning), one in zip(VIEWS, found, strict=True)]
        return [html_of(card) for card in nest(shown, states.of_cards)], views

    cards, views = await anyio.to_thread.run_sync(rendered)
    return {
        "event": raw,
        "cards": cards,
        "views": views,
        "previous": _seq(before),
        "next": _seq(after),
    }


def pretty(value: Any) -> str:
    """Format JSON with indentation, and escape invisible characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


async def _view(services: Services, seq: int, view: View) -> dict[str, Any]:
    reply = await services.requests.reply_to(EventRequest(id=None, seq=seq, view=view))
    if reply.error is not None:
        raise WebError(status_of(reply.error.code), reply.error.code, reply.error.message)
    event: dict[str, Any] = reply.result["event"]
    return event


def _coloured(event: dict[str, Any]) -> Markup:
    return code(pretty(event), language="json")


def _seq(events: list[StoredEvent]) -> int | None:
    return events[0].seq if events else None
