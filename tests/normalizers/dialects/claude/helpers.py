"""Helpers for the tests of Claude's dialects: fixtures as events, and handmade lines."""

from pathlib import Path
from typing import Any

import orjson

from tests.normalizers import reading
from tests.normalizers.reading import answer as answer
from tests.normalizers.reading import of as of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Message, ToolCall, ToolResult, Turn
from tooltap.protocol.stats import Statistics
from tooltap.testing import Line, check_recording, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "claude-stream"
V2 = "claude-code-2.1.330"
V1 = "claude-code-1.0.128"
SESSION = "11111111-2222-3333-4444-555555555555"


def recording(name: str, version: str = V2) -> list[Line]:
    return read_recording((FIXTURES / version / f"{name}.jsonl").read_bytes())


def events(name: str, version: str = V2) -> list[Event]:
    return normalize("claude-stream", recording(name, version), Context(stream="s"))


def calls(found: list[Event]) -> list[ToolCall]:
    return of(ToolCall, found)


def results(found: list[Event]) -> list[ToolResult]:
    return of(ToolResult, found)


def statistics(lines: list[Line]) -> Statistics:
    return reading.statistics("claude-stream", lines)


def read(*lines: dict[str, Any]) -> list[Event]:
    """Return the events of handmade lines, as Claude Code prints them."""
    made = [Line(orjson.dumps({"session_id": SESSION, "parent_tool_use_id": None, **line})) for line in lines]
    return check_recording("claude-stream", made)


def init(**more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "cwd": "/ws", "model": "m", "permissionMode": "default", **more}


def assistant(*blocks: dict[str, Any], message_id: str = "msg_1", **more: Any) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "model": "m", "content": list(blocks)}
    return {"type": "assistant", "message": message, **more}


def user(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": list(blocks)}, **more}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def tool_result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def streamed(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, **more}


def result(subtype: str = "success", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": subtype, "is_error": subtype != "success", **more}


def turns(found: list[Event]) -> list[tuple[str | None, str]]:
    return [(turn.turn, turn.state) for turn in of(Turn, found)]


def said(found: list[Event]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in of(Message, found)]
