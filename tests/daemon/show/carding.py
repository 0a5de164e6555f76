"""Cards of events: recorded events, as the parsers emit them, and written ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.daemon.web.parsed import Element, assert_inert
from tooltap.daemon.show.blocks import CallOfResult, Level, RenderContext
from tooltap.daemon.show.shown import fragment_of
from tooltap.daemon.show.skins.html import article
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import AnyEvent, Event, ToolCall, ToolUpdate, decode
from tooltap.testing import normalize, read_recording

__all__ = ["card_of", "cards_of", "made", "recorded", "result"]

FIXTURES = Path(__file__).parents[2] / "fixtures"
ENVELOPE = {
    "v": 2,
    "seq": 7,
    "id": "s:1:0",
    "stream": "s",
    "line": 1,
    "session": "session",
    "protocol": "acp",
    "provider": "gemini",
    "dialect": "acp",
}


def recorded(path: str) -> list[Event]:
    """Return the events of a fixture, by `<dialect>/<version>/<file>`."""
    dialect = path.split("/")[0]
    return normalize(dialect, read_recording((FIXTURES / path).read_bytes()), Context(stream="s"))


def made(kind: str, **fields: Any) -> AnyEvent:
    """Make an event as it comes from the journal. `fields`: keys as on the wire."""
    return decode(json.dumps({**ENVELOPE, "kind": kind, **fields}))


def result(name: str, output: dict[str, Any], **fields: Any) -> AnyEvent:
    """Make a result, of a completed call by default."""
    ended = {"callId": "c", "status": "completed", "isError": False, **fields}
    return made("tool-result", name=name, output=output, **ended)


def card_of(event: Event, level: Level = "summary", call: CallOfResult | None = None) -> Element:
    """Render an event that has a card, check that it is inert, and return its article."""
    context = RenderContext(level, lambda output_id: f"/api/outputs/{output_id}", event.outputs or {}, call)
    fragment = fragment_of(event, context)
    assert fragment is not None
    return assert_inert(article(fragment)).one("article")


def cards_of(events: list[Event], level: Level = "summary") -> list[tuple[Event, Element]]:
    """Render the events of a stream; results know their call."""
    calls: dict[str, CallOfResult] = {}
    shown: list[tuple[Event, Element]] = []
    for event in events:
        if isinstance(event, ToolCall):
            calls[event.call_id] = CallOfResult(event.name, event.input, event.preview or "")
        if isinstance(event, ToolUpdate) and event.input is not None:
            calls[event.call_id] = CallOfResult(event.name, event.input, event.preview or "")
        call = calls.get(getattr(event, "call_id", None) or "")
        context = RenderContext(level, lambda output_id: f"/api/outputs/{output_id}", event.outputs or {}, call)
        fragment = fragment_of(event, context)
        if fragment is not None:
            shown.append((event, assert_inert(article(fragment)).one("article")))
    return shown
