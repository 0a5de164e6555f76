"""Plans: ACP's to-do lists, which come without a call; each is a synthetic `TodoWrite` call and result."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.acp.state import AcpState, SessionInfo
from tooltap.normalizers.wire.values import record, records
from tooltap.protocol.events import Notice

__all__ = ["Plans"]


class Plans:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: AcpState = parser.state

    @property
    def _info(self) -> SessionInfo:
        return self._state.sessions.get(self._parser.session) or SessionInfo()

    def note(self, todos: Any) -> None:
        """A call to the agent's own tool shows this list: a plan that repeats it (OpenCode before 1.0) is no news."""
        self._info.todos = _digest(todos)

    def update(self, update: dict[str, Any]) -> str:
        """`plan` (v1) or `plan_update` (v2): the whole list as it is now."""
        plan = record(update.get("plan")) or update
        entries = plan.get("entries")
        if isinstance(entries, list):
            return self._show(entries, update)
        text = plan.get("content") or plan.get("uri")
        if not isinstance(text, str):
            return self._parser.unparsed("unknown-type", update)
        self._parser.texts.flush()
        self._parser.emit(Notice, level="info", code="plan", text=text)
        return WITH_EVENTS

    def _show(self, entries: list[Any], update: dict[str, Any]) -> str:
        digest = _digest(entries)
        if self._info.todos == digest:
            return skip("unchanged")
        self._info.todos = digest
        self._state.plans += 1
        parser = self._parser
        parser.texts.flush()
        call_id = f"plan-{self._state.plans}"
        parser.calls.open(call_id, "plan", {"todos": entries}, raw=update, name="TodoWrite", synthetic=True)
        parser.calls.result(call_id, {"todos": entries}, raw=update, synthetic=True)
        return WITH_EVENTS


def _digest(todos: Any) -> int:
    return zlib.crc32(msgspec.json.encode([(item.get("content"), item.get("status")) for item in records(todos)]))
