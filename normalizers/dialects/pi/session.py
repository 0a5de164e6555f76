"""The `pi-session` dialect: the files that Pi keeps under `~/.pi/agent/sessions`, in version 3 of their format.

Learned from Pi 0.73. A line is an entry of a tree; whole messages are the entries that matter. No line says that a turn
begins or ends: it lasts from the user's message to the answer of the model that calls no tool.
"""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.pi.parser import PiJson, PiState
from tooltap.normalizers.wire.values import milliseconds, string

_SKIPPED = {
    "thinking_level_change": "setting",
    "custom": "session-file",
    "label": "session-file",
}
_ENDS = {"stop": "completed", "length": "completed", "aborted": "cancelled"}
"""Stop reason -> outcome of the turn. After an error Pi may ask the model again."""


class PiSessionState(PiState, kw_only=True):
    failed: bool = False
    """The model's last message is an error."""


class PiSession(PiJson):
    dialect = "pi-session"
    line = PiJson.line.copy(skip=_SKIPPED)
    message = PiJson.message.copy()
    state_type = PiSessionState
    state: PiSessionState

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts

    @line("message", message=dict)
    def _entry(self, value: Line) -> Skip:
        return self._message(value)

    @line("model_change")
    def _model_changed(self, value: Line) -> Skip:
        return None if self.uses_model(string(value.get("modelId"))) else "unchanged"

    @line("session_info")
    def _name(self, value: Line) -> Skip:
        return self.retitle(string(value.get("name")))

    @line("compaction", "branch_summary")
    def _summary(self, value: Line) -> None:
        self.notice("compaction" if value["type"] == "compaction" else "branch", string(value.get("summary")))

    @line("custom_message")
    def _custom(self, value: Line) -> None:
        self.notice(string(value.get("customType")) or "custom", string(value.get("content")))

    @message("user")
    def _user(self, message: Line) -> Skip:
        self._end_turn("cancelled", synthetic=True)
        return super()._user(message)

    @message("assistant")
    def _assistant(self, message: Line) -> Skip:
        outcome = super()._assistant(message)
        stopped = string(message.get("stopReason")) or ""
        self.state.failed = stopped == "error"
        if stopped not in _ENDS:
            return outcome
        self._end_turn(_ENDS[stopped], reason=stopped)
        return None

    def finish(self, reason: str) -> None:
        if self.state.failed:
            self._end_turn("failed", ended_by="eof")

    def _end_turn(
        self, outcome: str, *, reason: str | None = None, ended_by: str = "answer", synthetic: bool = False
    ) -> None:
        """End the turn, if one is open."""
        failed, self.state.failed = self.state.failed, False
        if self.turn is not None:
            by = "eof" if synthetic else ended_by
            self.end_turn("failed" if failed else outcome, reason=reason, ended_by=by, synthetic=synthetic)
