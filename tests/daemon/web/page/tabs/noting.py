"""Feeds events to what tabs know of a session, without a journal."""

from __future__ import annotations

from typing import Any, Protocol

from tooltap.protocol.events import (
    Event,
    Notice,
    SessionEvent,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    encode,
)

__all__ = ["Noting"]

START = 1_700_000_000_000


class Noted(Protocol):
    def note(self, seq: int, body: bytes) -> None: ...


class Noting:
    """Numbers events and passes them on; the time advances by a second with each."""

    def __init__(self, known: Noted) -> None:
        self.known = known
        self.seq = 0

    def event(self, kind: type[Event], **fields: Any) -> int:
        self.seq += 1
        envelope = {
            "v": 2,
            "id": f"s:{self.seq}:0",
            "stream": "s",
            "line": self.seq,
            "session": "one",
            "protocol": "claude",
            "provider": "claude",
            "dialect": "claude-stream",
            "ts": START + 1_000 * self.seq,
        }
        self.known.note(self.seq, encode(kind(**{**envelope, **fields})))
        return self.seq

    def turn(self, state: str = "started", **fields: Any) -> int:
        return self.event(Turn, state=state, **fields)

    def call(
        self,
        name: str,
        given: dict[str, Any],
        answer: dict[str, Any] | None = None,
        status: str = "completed",
        **of: Any,
    ) -> int:
        """Pass on a call and its result, and return the `seq` of the call. `of`: fields that say whose call it is."""
        seq = self.event(ToolCall, call_id=f"c{self.seq}", name=name, input=given, status="running", **of)
        call_id = f"c{seq - 1}"
        failed = status == "failed"
        self.event(ToolResult, call_id=call_id, name=name, output=answer or {}, status=status, is_error=failed, **of)
        return seq

    def usage(self, scope: str, **fields: Any) -> int:
        return self.event(Usage, scope=scope, **fields)

    def compaction(self, text: str = "conversation compacted", level: str = "info", **data: Any) -> int:
        return self.event(Notice, level=level, code="compaction", text=text, data=data or None)

    def session(self, **fields: Any) -> int:
        return self.event(SessionEvent, state="updated", **fields)
