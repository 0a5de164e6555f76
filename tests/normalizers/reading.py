"""Helpers for the tests of all dialects: read fixtures and handmade lines into events, and inspect those."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tooltap.normalizers.core.items import Context, Item, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event, Message, ToolCall, ToolResult, Turn
from tooltap.protocol.stats import Statistics
from tooltap.testing import Line, normalize, read_recording

FIXTURES = Path(__file__).parent.parent / "fixtures"

E = TypeVar("E", bound=Event)


def recording(dialect: str, name: str, version: str) -> list[Line]:
    path = FIXTURES / dialect / version / name
    return read_recording((path if path.suffix else path.with_suffix(".jsonl")).read_bytes())


def lines_of(values: tuple[Any, ...]) -> list[Line]:
    return [value if isinstance(value, Line) else Line(orjson.dumps(value)) for value in values]


def read(dialect: str, *values: Any, **context: Any) -> list[Event]:
    """Return the events of handmade lines: objects, or `Line`s with a time or a direction."""
    return normalize(dialect, lines_of(values), Context(stream="s", **context))


def emitted(items: Sequence[Item]) -> list[Any]:
    """Return what a parser emitted: decoded events, and chunks of output bodies as they are."""
    return [item.event if isinstance(item, Produced) else item for item in items]


def statistics(dialect: str, lines: list[Line]) -> Statistics:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    for line in lines:
        normalizer.feed(line.data, line.t, line.direction)
    return normalizer.statistics


def of(kind: type[E], found: list[Event]) -> list[E]:
    return [event for event in found if isinstance(event, kind)]


def calls(found: list[Event]) -> dict[str, ToolCall]:
    """Calls by raw tool name."""
    return {call.input["_happy"]["rawToolName"]: call for call in of(ToolCall, found)}


def results(found: list[Event]) -> dict[str, ToolResult]:
    """Results by raw tool name; the last one of each."""
    return {result.output["_happy"]["rawToolName"]: result for result in of(ToolResult, found)}


def answer(payload: dict[str, Any] | None) -> dict[str, Any]:
    """A payload without the keys that every payload has."""
    return {key: value for key, value in (payload or {}).items() if key not in ("_happy", "_raw", "_mcp")}


def said(found: list[Event]) -> list[tuple[str, str]]:
    """Role and text of each message."""
    return [(message.role, message.text) for message in of(Message, found)]


def turns(found: list[Event]) -> list[tuple[str | None, str, bool]]:
    """Id, state and `synthetic` of each turn event."""
    return [(turn.turn, turn.state, turn.synthetic) for turn in of(Turn, found)]


def outline(found: list[Event]) -> list[str]:
    """The kind of each event, with its tool, role or state, in order."""
    return [_outline(event) for event in found]


def _outline(event: Event) -> str:
    kind = str(type(event).__struct_config__.tag)
    if isinstance(event, ToolCall):
        return f"{kind} {event.name}"
    if isinstance(event, ToolResult):
        return f"{kind} {event.name} {event.status}"
    if isinstance(event, Message):
        return f"{kind} {event.role}"
    return f"{kind} {event.state}" if isinstance(event, Turn) else kind
