"""The `copilot-history` dialect: the files in which Copilot CLI kept sessions in 2025, each one JSON document that it
rewrote after each change.

`timeline` has what the user saw, in order; `chatMessages` repeats it as it was sent to the model. An entry of a call is
replaced by one with its result. There are no tokens, no model and no folder. Written after what other readers of these
files say of them.
"""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.dialects.copilot.answers import read_result
from tooltap.normalizers.wire.values import milliseconds, record, records, string
from tooltap.protocol.events import SessionEvent

MANY_CALLS = 1_024
_LEVELS = {"error": "error", "warning": "warning"}


class CopilotHistoryState(SessionState, kw_only=True):
    entries: int = 0
    """Entries of the timeline that were read."""
    open: list[int] = msgspec.field(default_factory=list)
    """Indexes of entries of calls without a result."""


class CopilotHistory(Parser):
    dialect = "copilot-history"
    STATES_TIMES = True
    DOCUMENTS = True
    protocol = default_provider = "copilot"
    SKIPS = frozenset({"empty", "unchanged"})
    entry = Lines("type")
    state_type = CopilotHistoryState
    state: CopilotHistoryState

    def read(self, value: Line) -> Skip:
        """Read a version of the document: the entries that are new, and calls that have ended."""
        session, timeline = string(value.get("sessionId")), value.get("timeline")
        if session is None or not isinstance(timeline, list):
            return self.unparsed("unknown-type", value)
        self.ts = milliseconds(value.get("startTime")) or self.ts
        self.set_session(session)
        state = self.state
        if state.started is None:
            state.started = session
            self.emit(SessionEvent, state="started")
        entries = records(timeline)
        due, state.open = [*state.open, *range(state.entries, len(entries))], []
        state.entries = max(state.entries, len(entries))
        for index in due:
            if index < len(entries):
                self._read_entry(entries[index], index)
        return None if self.items else "unchanged"

    def _read_entry(self, entry: Line, index: int) -> None:
        self.ts = milliseconds(entry.get("timestamp")) or self.ts
        if entry.get("type") == "tool_call_requested" and len(self.state.open) < MANY_CALLS:
            self.state.open.append(index)
        self.entry.read(self, entry)

    @entry("user", text=str)
    def _user(self, entry: Line) -> Skip:
        if self.turn is not None:
            self.give_up_turns()
        self.start_turn()
        self.emit_text("user", entry["text"], message_id=string(entry.get("id")))
        return None

    @entry("copilot", text=str)
    def _copilot(self, entry: Line) -> Skip:
        if not entry["text"]:
            return "empty"
        self.ensure_turn()
        self.emit_text("assistant", entry["text"], message_id=string(entry.get("id")))
        return None

    @entry("info", "error", "warning")
    def _told(self, entry: Line) -> None:
        kind = str(entry["type"])
        self.notice(kind, string(entry.get("text")), _LEVELS.get(kind, "info"))

    @entry("tool_call_requested", "tool_call_completed", callId=str, name=str)
    def _call(self, entry: Line) -> Skip:
        call_id, name = entry["callId"], entry["name"]
        self.ensure_turn()
        title = string(entry.get("toolTitle"))
        shown = self.calls.show(call_id, name, entry.get("arguments"), raw=entry, title=title, place=("", None))
        if entry["type"] == "tool_call_requested":
            return shown
        result = record(entry.get("result"))
        log, kind = string(result.get("log")), string(result.get("type"))
        has_succeeded = kind in (None, "success")
        error = None if has_succeeded else {"message": log, "code": kind}
        data = {"success": has_succeeded, "result": {"content": log}, "error": error}
        answer = read_result(self.calls.name_of(call_id) or "", data, None, None)
        return self.calls.answer(call_id, answer, raw=entry, raw_name=UNKNOWN_TOOL)
