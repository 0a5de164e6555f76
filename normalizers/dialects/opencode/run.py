"""The `opencode-run` dialect: `opencode run --format json`.

Learned from OpenCode 1.18.33, and older streams (1.0). Each line is a finished part of a message; calls come with their
results. There are no prompts, and no line states that the run is over: a turn ends with the step whose reason is not
that tools were called. After a denial or an interrupt the stream just stops.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import Call, State
from tooltap.normalizers.dialects.opencode.parts import OpencodeParts, OpencodeState, outcome_of, read_usage
from tooltap.normalizers.wire.values import first_string, record, whole
from tooltap.protocol.events import OutputRef, Usage

_CONTINUES = ("tool-calls", "unknown", None)
"""Reasons of a step that another one follows (1.18.33); before 1.0 a step may have none."""


class OpencodeRun(Parser):
    dialect = "opencode-run"
    SKIPS = frozenset({"empty", "partial", "repeated", "step", "unchanged"})
    protocol = default_provider = "opencode"
    line = Lines("type")
    state_type = OpencodeState
    state: OpencodeState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.parts = OpencodeParts(self, self.state)

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.parts.running.take(call.id)

    def enter(self, value: Line) -> None:
        if self.line.knows(value.get("type")):
            self.ts = whole(value.get("timestamp")) or self.ts
            if (session := first_string(value, "sessionID")) is not None:
                self.set_session(session)

    @line("text", "reasoning")
    def _text(self, value: Line) -> Skip:
        part = record(value.get("part"))
        if not isinstance(part.get("text"), str):
            return self.unparsed("unknown-type", value)
        return self.parts.read_whole(part, "reasoning" if value["type"] == "reasoning" else "assistant")

    @line("tool_use")
    def _tool_use(self, value: Line) -> Skip:
        return self.parts.read_tool(record(value.get("part")))

    @line("step_start")
    def _step_start(self, value: Line) -> Skip:
        return self.parts.read_step_start()

    @line("step_finish")
    def _step_finish(self, value: Line) -> Skip:
        self.ensure_turn()
        part = record(value.get("part"))
        used, reason = read_usage(part), first_string(part, "reason")
        if reason not in _CONTINUES:
            usage = ((Usage, {"scope": "step", **used}),) if used is not None else ()
            self.end_turn(outcome_of(reason), reason=reason, ended_by="answer", before=usage)
        elif used is None:
            return "step"
        else:
            self.emit(Usage, scope="step", **used)
        return None

    @line("error")
    def _error(self, value: Line) -> None:
        """The run is over; a second error is only reported."""
        if self.state.turn_count == 0:
            self.ensure_turn()
        outcome, reason = self.parts.report_error(record(value.get("error")))
        if self.turn is not None:
            self.end_turn(outcome, reason=reason)

    @line("done")
    def _done(self, value: Line) -> Skip:
        """Later than 1.18.33: the session is idle."""
        if self.turn is None:
            return "step"
        self.end_turn("completed", reason=first_string(value, "reason"))
        return None
