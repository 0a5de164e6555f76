"""The `kimi-session` dialect: the files that Kimi Code keeps for each agent of a session, `wire.jsonl`.

Learned from Kimi Code 2.1. The lines are an event log of the agent's loop; what the model was sent is repeated in
lines of their own. The files of subagents name their agent, and the path names the session.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.kimi.messages import KimiMessages, KimiState
from tooltap.normalizers.wire.values import milliseconds, record, string, whole
from tooltap.protocol.events import Usage

MAIN = "main"
_OUTCOMES = {"completed": "completed", "cancelled": "cancelled", "interrupted": "cancelled", "aborted": "cancelled"}
"""Reason of the end of a turn -> outcome; every other is a failure."""
_SKIPPED = {
    "prompt-context": "context.append_message plugin.session_start",
    "repeated": "agent.message.appended agent.turn.started agent.turn.ended prompt.completed usage.record",
    "model-call": "llm.tools_snapshot token_counting.measured token_counting.turn_recorded",
    "settings": "metadata runtime.set_binding tools.update_store",
    "snapshot": "file_history.tracked file_history.checkpoint",
    "subagent": "subagent.spawned subagent.started subagent.completed subagent.failed",
}
"""Reason -> types of lines that carry no event."""


class KimiSessionState(KimiState, kw_only=True):
    model: str | None = None
    mode: str | None = None


class KimiSession(Parser):
    dialect = "kimi-session"
    protocol = default_provider = "kimi"
    SKIPS = KimiMessages.SKIPS | {"unchanged"}
    line = Lines("type", skip={kind: reason for reason, kinds in _SKIPPED.items() for kind in kinds.split()})
    event = Lines("type", skip={"step.begin": "step"})
    """The events of the agent's loop."""
    state_type = KimiSessionState
    state: KimiSessionState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.messages = KimiMessages(self, self.state)

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("time")) or self.ts
        agent = string(value.get("agentId"))
        if agent is not None and agent != MAIN:
            self.agent = agent

    @line("profile.bind")
    def _profile(self, value: Line) -> Skip:
        if self.agent is not None or self.state.started == self.session:
            return "settings"
        self.begin_session(None)
        return None

    @line("llm.request")
    def _request(self, value: Line) -> Skip:
        if self.agent is not None or not self.uses_model(string(value.get("model"))):
            return "model-call"
        return None

    @line("permission.set_mode")
    def _mode(self, value: Line) -> Skip:
        mode = string(value.get("mode"))
        if self.agent is not None or mode is None or mode == self.state.mode:
            return "settings"
        self.state.mode = mode
        return self.update_session({"mode": mode})

    # -- turns --------------------------------------------------------------------------------------------------

    @line("turn.prompt")
    def _prompt(self, value: Line) -> Skip:
        if self.turn is not None:
            self.give_up_turns()
        self.start_turn()
        return self.messages.show_message("user", value.get("input"))

    @line("turn.ended")
    def _turn_ended(self, value: Line) -> Skip:
        if self.turn is None:
            return "unchanged"
        reason = string(value.get("reason")) or ""
        outcome = _OUTCOMES.get(reason, "failed")
        if outcome == "failed" and (words := string(record(value.get("error")).get("message"))):
            self.notice("provider-error", words, "error")
        self.end_turn(outcome, reason=reason, duration_ms=whole(value.get("durationMs")))
        return None

    # -- the loop -----------------------------------------------------------------------------------------------

    @line("context.append_loop_event", event=dict)
    def _loop_event(self, value: Line) -> Skip:
        return self.event.read(self, value["event"], line=value)

    @event("content.part", part=dict)
    def _part(self, event: Line) -> Skip:
        self.ensure_turn()
        return self.messages.show_message("assistant", [event["part"]])

    @event("tool.call", toolCallId=str, name=str)
    def _call(self, event: Line) -> Skip:
        self.ensure_turn()
        return self.messages.show_call(event["toolCallId"], event["name"], event.get("args"), event)

    @event("tool.result", toolCallId=str)
    def _result(self, event: Line) -> Skip:
        self.ensure_turn()
        return self.messages.answer_call(event["toolCallId"], event, "result")

    @event("step.end")
    def _step_ended(self, event: Line) -> Skip:
        used = _tokens(record(event.get("usage")))
        if not any(used.values()):
            return "step"
        self.ensure_turn()
        self.emit(Usage, scope="step", **used)
        return None


def _tokens(usage: Line) -> dict[str, Any]:
    """Usage of one request; `inputOther` excludes tokens read from and written to the cache."""
    parts = [whole(usage.get(key)) for key in ("inputOther", "inputCacheRead", "inputCacheCreation")]
    return {
        "input_tokens": sum(part or 0 for part in parts) if parts[0] is not None else None,
        "output_tokens": whole(usage.get("output")),
        "cache_read_tokens": parts[1],
        "cache_write_tokens": parts[2],
    }
