"""The `opencode-run` dialect: `opencode run --format json`.

Learned from OpenCode 1.18.33, and older streams (1.0). Each line is a part of a message that is finished: calls come
with their result. There is no prompt, and no line says that the run is over: a turn ends with the step that does not
end for the sake of tools; after a denial or an interrupt the stream just stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.opencode.errors import notice_failure, outcome_of_reason
from tooltap.normalizers.dialects.opencode.state import Msg, OpencodeState, int_of, object_of, text_of
from tooltap.normalizers.dialects.opencode.texts import TextParts
from tooltap.normalizers.dialects.opencode.tools import ToolParts
from tooltap.normalizers.dialects.opencode.usage import tokens_used
from tooltap.protocol.events import Usage
from tooltap.protocol.tapped import Direction

__all__ = ["OpencodeRun"]

_GOES_ON = ("tool-calls", "unknown", None)
"""Reasons of a step after which there is another (1.18.33); before 1.0 a step may give none."""


class OpencodeRun(Parser):
    dialect = "opencode-run"
    protocol = "opencode"
    default_provider = "opencode"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "empty", "repeated", "step"})
    state_type = OpencodeState
    state: OpencodeState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._texts = TextParts(self)
        self._tools = ToolParts(self)
        self._lines: dict[str, Callable[[Msg, Msg], str]] = {
            "done": self._done,
            "error": self._error,
            "reasoning": self._reasoning,
            "step_finish": self._step_finish,
            "step_start": self._step_start,
            "text": self._text,
            "tool_use": self._tool_use,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        handler = self._lines.get(str(value.get("type")))
        if handler is None:
            return self.unparsed("unknown-type", value)
        self.ts = int_of(value, "timestamp") or self.ts
        if (session := text_of(value, "sessionID")) is not None:
            self.set_session(session)
        return handler(object_of(value, "part"), value)

    def unfinished(self, call: Call) -> tuple[Any, Any]:
        return self._tools.output_so_far(call)

    def _step_start(self, part: Msg, value: Msg) -> str:
        if self.turn is not None:
            return skip("step")
        self.ensure_turn()
        return WITH_EVENTS

    def _text(self, part: Msg, value: Msg) -> str:
        return self._said(part, value, "assistant")

    def _reasoning(self, part: Msg, value: Msg) -> str:
        return self._said(part, value, "reasoning")

    def _said(self, part: Msg, value: Msg, role: str) -> str:
        if not isinstance(part.get("text"), str):
            return self.unparsed("unknown-type", value)
        return self._texts.whole(part, role)

    def _tool_use(self, part: Msg, value: Msg) -> str:
        return self._tools.report(part)

    def _step_finish(self, part: Msg, value: Msg) -> str:
        self.ensure_turn()
        used = tokens_used(part)
        reason = text_of(part, "reason")
        if reason not in _GOES_ON:
            usage = ((Usage, {"scope": "step", **used}),) if used is not None else ()
            self.end_turn(outcome_of_reason(reason), reason=reason, before=usage)
            return WITH_EVENTS
        if used is None:
            return skip("step")
        self.emit(Usage, scope="step", **used)
        return WITH_EVENTS

    def _error(self, part: Msg, value: Msg) -> str:
        """The run is over; a second error is only told."""
        if self.state.turn_count == 0:
            self.ensure_turn()
        failure = notice_failure(self, object_of(value, "error"))
        if self.turn is not None:
            self.end_turn(failure.outcome, reason=failure.reason)
        return WITH_EVENTS

    def _done(self, part: Msg, value: Msg) -> str:
        """Later than 1.18.33: the session is idle."""
        if self.turn is None:
            return skip("step")
        self.end_turn("completed", reason=text_of(value, "reason"))
        return WITH_EVENTS
