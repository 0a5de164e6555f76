"""Events and commits for tests of the journal, without a parser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tooltap.daemon.journal.interface import Commit, StreamInfo
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.events import Event, Message, ToolCall, ToolResult
from tooltap.protocol.inputs import Input
from tooltap.protocol.stats import Statistics


def event(kind: type[Event], stream: str = "s", line: int = 1, index: int = 0, **fields: Any) -> Produced:
    envelope = {
        "v": 2,
        "id": f"{stream}:{line}:{index}",
        "stream": stream,
        "line": line,
        "session": "session-1",
        "protocol": "acp",
        "provider": "gemini",
        "dialect": "acp",
    }
    made = kind(**{**envelope, **fields})
    return Produced.of(made)


def message(text: str, stream: str = "s", **fields: Any) -> Produced:
    return event(Message, stream, role="assistant", text=text, **fields)


def call(call_id: str, stream: str = "s", name: str = "Bash", **fields: Any) -> Produced:
    happy = {"v": 2, "protocol": "acp", "provider": "gemini", "rawToolName": "sh", "canonicalToolName": name}
    values = {"input": {"_happy": happy, "_raw": {}}, "status": "running", **fields}
    return event(ToolCall, stream, call_id=call_id, name=name, **values)


def result(call_id: str, stream: str = "s", **fields: Any) -> Produced:
    values = {"output": {}, "status": "completed", "is_error": False, **fields}
    return event(ToolResult, stream, call_id=call_id, name="Bash", **values)


def info(stream: str = "s", lines: int = 0, **fields: Any) -> StreamInfo:
    statistics = Statistics(stream=stream, dialect="acp", provider="gemini", lines=lines)
    return StreamInfo(stream=stream, lines=lines, statistics=statistics, **fields)


def commit(
    *outputs: Produced | OutputChunk,
    stream: str = "s",
    base: int = 0,
    lines: int = 1,
    tail: Sequence[Input] = (),
    snapshot: bytes | None = None,
    **fields: Any,
) -> Commit:
    """Lines base+1 … base+lines of a stream."""
    return Commit(info(stream, base + lines, **fields), base, outputs, tail, snapshot)
