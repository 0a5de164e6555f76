"""Helpers for the tests of Codex's dialects: events of fixtures, and builders of lines."""

import base64
from pathlib import Path
from typing import Any

import orjson

from tests.normalizers import reading
from tests.normalizers.reading import of
from tooltap.normalizers.catalog.registry import recognise
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Message, ToolCall, ToolResult
from tooltap.protocol.stats import Statistics
from tooltap.testing import Line, check_events, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "codex-mcp" / "codex-0.120"
THREAD = "01a1ffe4-397b-7750-b2a9-211578d3d7e7"


def recording(name: str) -> list[Line]:
    return read_recording((FIXTURES / f"{name}.jsonl").read_bytes())


def agents_side(lines: list[Line]) -> list[Line]:
    """The lines that a tap on the agent's output alone receives, without directions."""
    return [Line(line.data, line.t) for line in lines if line.direction != "in"]


def events(name: str) -> list[Event]:
    return normalize("codex-mcp", recording(name), Context(stream="s"))


def calls(found: list[Event]) -> list[ToolCall]:
    return of(ToolCall, found)


def results(found: list[Event]) -> list[ToolResult]:
    return of(ToolResult, found)


def statistics(lines: list[Line], dialect: str = "codex-mcp") -> Statistics:
    return reading.statistics(dialect, lines)


def plain(*made: dict[str, Any]) -> list[Line]:
    """Objects as lines without directions."""
    return [Line(orjson.dumps(one)) for one in made]


def recognised(line: bytes) -> str | None:
    """Return the dialect that a single line is recognized as; fails if the order of its keys matters."""
    value = orjson.loads(line)
    shuffled = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert recognise(value) == recognise(shuffled)
    return recognise(value)


def lines(*made: dict[str, Any]) -> list[Line]:
    """JSON-RPC messages as tapped lines; the client's requests and answers have `dir`."""
    return [Line(orjson.dumps({"jsonrpc": "2.0", **one}), None, one.pop("dir", "out")) for one in made]


def read(*made: dict[str, Any]) -> list[Event]:
    """The events of JSON-RPC messages."""
    found = normalize("codex-mcp", lines(*made), Context(stream="s"))
    check_events(found)
    return found


def event(kind: str, *, turn: str = "2", thread: str = THREAD, request: int = 2, **keys: Any) -> dict[str, Any]:
    meta = {"requestId": request, "threadId": thread}
    return {"method": "codex/event", "params": {"_meta": meta, "id": turn, "msg": {"type": kind, **keys}}}


def item(kind: str, of_type: str, **keys: Any) -> dict[str, Any]:
    """`item_started` or `item_completed`."""
    return event(f"item_{kind}", thread_id=THREAD, turn_id="2", item={"type": of_type, **keys})


def raw(of_type: str, **keys: Any) -> dict[str, Any]:
    return event("raw_response_item", item={"type": of_type, **keys})


def started(turn: str = "2", **more: Any) -> dict[str, Any]:
    return event("task_started", turn=turn, turn_id=turn, **more)


def completed(turn: str = "2", **more: Any) -> dict[str, Any]:
    return event("task_complete", turn=turn, turn_id=turn, **more)


PNG = "iVBORw0KGgo="
ONE_SECOND: dict[str, Any] = {"duration": {"secs": 1, "nanos": 0}}


def said(found: list[Event]) -> list[tuple[str, str, bool]]:
    return [(message.role, message.text, message.synthetic) for message in of(Message, found)]


def ends(found: list[Event]) -> list[tuple[str, str]]:
    return [(result.call_id, result.status) for result in results(found)]


def delta(call_id: str, data: bytes, stream: str = "stdout") -> dict[str, Any]:
    chunk = base64.b64encode(data).decode()
    return event("exec_command_output_delta", call_id=call_id, stream=stream, chunk=chunk)


def begin(call_id: str, command: str, **more: Any) -> dict[str, Any]:
    return event("exec_command_begin", call_id=call_id, command=["/bin/bash", "-lc", command], cwd="/ws", **more)


def end(call_id: str, **more: Any) -> dict[str, Any]:
    return event("exec_command_end", call_id=call_id, **more)


def answered(call_id: str, output: Any) -> dict[str, Any]:
    return raw("function_call_output", call_id=call_id, output=output)
