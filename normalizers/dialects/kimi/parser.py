"""Parsers of Kimi's printed stream, which includes its wire mode (`wire.py`), and of the session files of Kimi Code."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.answers import CannotWriteError, Chosen
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.kimi import to_agent
from tooltap.normalizers.dialects.kimi.messages import KimiMessages, KimiState
from tooltap.normalizers.dialects.kimi.wire import KimiWire, WireState
from tooltap.normalizers.wire.values import milliseconds, number, record, records, string, token_counts, whole
from tooltap.protocol import LATEST_MS
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import Usage

_RPC_KEYS = frozenset({"jsonrpc", "method", "result"})
"""Keys that identify JSON-RPC; a client may leave out `jsonrpc`."""
_HOOK = re.compile(r"(\w{1,40}) hook( blocked)?\n\n(.*)", re.ASCII | re.DOTALL)
"""Output of a hook, which Kimi Code 2.1 prints as a message of the assistant."""
_GOALS = {"blocked": "warning", "paused": "warning"}
"""Status of a goal -> level of its notice; every other is info."""


class KimiJsonState(KimiState, kw_only=True):
    wire: WireState = msgspec.field(default_factory=WireState)
    is_code: bool = False
    """The agent is Kimi Code, which is today's `kimi`."""
    retrying: str | None = None
    """The error because of which a request to the model is being retried, until the model answers."""


class KimiJson(Parser):
    """The `kimi-json` dialect: what Kimi prints, `kimi --print --output-format stream-json`, and its wire mode
    (`wire.py`).

    Learned from Kimi CLI 1.40 and Kimi Code 2.1, in which the flag is `-p`. Each printed line is a chat message: the
    model's text with its tool calls, or one result. There is no prompt, no time and no usage; errors of the API are
    printed as plain text. MCP tools have their bare names in 1.40. A message without calls is the model's last, and
    therefore ends the turn. Beside the messages, Kimi Code prints its version, its retries, and at the end the id of
    the session.
    """

    dialect = "kimi-json"
    protocol = default_provider = "kimi"
    SKIPS = KimiWire.SKIPS | {"plan-display"}
    line = Lines("role")
    meta = Lines("type")
    """Lines of the role `meta`, since Kimi Code 2."""
    state_type = KimiJsonState
    state: KimiJsonState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.messages = KimiMessages(self, self.state)
        self.wire = KimiWire(self, self.state.wire, self.messages)

    # -- to the agent ---------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        return to_agent.word_answer(request["permissionId"], self.permissions.reply_to(request), chosen, option)

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self._check_reads()
        return to_agent.word_prompt(text, id, steers=self.is_working(session))

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self._check_reads()
        return to_agent.word_cancel(id)

    def _check_reads(self) -> None:
        if not self.state.wire.spoken:
            raise CannotWriteError("the agent was not seen to read prompts: Kimi does with --wire")

    # -- lines ----------------------------------------------------------------------------------------------------

    def read(self, value: Line) -> Skip:
        return self.line.read(self, value) if _RPC_KEYS.isdisjoint(value) else self.wire.read(value)

    @line.otherwise
    def _beside(self, value: Line) -> Skip:
        """Read a line without a role; such lines are not part of the conversation."""
        if isinstance(value.get("source_kind"), str):
            return self.messages.show_notification(value)
        if value.keys() == {"content", "file_path"}:
            return "plan-display"  # the call of ExitPlanMode, or the file, holds the plan
        if isinstance(value.get("question"), str) and "id" in value:
            return self.messages.side_question("user", value["question"])
        if "id" in value and value.keys() & {"response", "error"}:
            return self.messages.side_question("assistant", string(value.get("response")) or string(value.get("error")))
        if value.get("type") == "goal.summary":
            return self._goal(value)
        return self.unparsed("unknown-type", value)

    # -- Kimi Code ----------------------------------------------------------------------------------------------

    @line("meta")
    def _meta(self, value: Line) -> Skip:
        self.state.is_code = True
        return self.meta.read(self, value)

    @meta("system.version", version=str)
    def _version(self, value: Line) -> None:
        self.begin_session(None, agent_version=value["version"])

    @meta("session.resume_hint", session_id=str)
    def _resume_hint(self, value: Line) -> Skip:
        """Read the last line, the only one that states the session's id."""
        self.set_session(value["session_id"])
        return None if self.items else "unchanged"

    @meta("turn.step.retrying")
    def _retry(self, value: Line) -> None:
        names = ("failed_attempt", "next_attempt", "max_attempts", "delay_ms", "status_code")
        data = {name: value[name] for name in names if number(value.get(name)) is not None}
        text = string(value.get("error_message")) or string(value.get("error_name"))
        self.ensure_turn()
        self.state.retrying = string(value.get("error_name")) or "error"
        self.notice("retry", text, "warning", data or None)

    def finish(self, reason: str) -> None:
        self.wire.finish()
        if self.state.retrying is not None and self.turn is not None:  # the last error is printed as plain text
            self.end_turn("failed", ended_by="eof", reason=self.state.retrying, synthetic=True)
        self.state.retrying = None

    def _goal(self, value: Line) -> Skip:
        """The end of a goal that `/goal` set."""
        status = string(value.get("status"))
        data = {key: value[key] for key in ("turnsUsed", "tokensUsed", "wallClockMs") if whole(value.get(key))}
        text = ": ".join(part for part in (status, string(value.get("reason"))) if part)
        self.notice("goal", text, _GOALS.get(status or "", "info"), data or None)
        return None

    # -- messages -----------------------------------------------------------------------------------------------

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        content, calls = value.get("content"), records(value.get("tool_calls"))
        if not calls and self.state.is_code and type(content) is str and (hook := _HOOK.fullmatch(content)):
            self.notice("hook", hook[3], "warning" if hook[2] else "info", {"event": hook[1]})
            return None
        self.state.retrying = None
        self.ensure_turn()
        outcomes = [self.messages.show_message("assistant", content)]
        outcomes += [self._call(call, index) for index, call in enumerate(calls)]
        if not calls:
            self.end_turn("completed", ended_by="answer", synthetic=True)
            return None
        return None if None in outcomes else outcomes[-1]

    @line("user")
    def _user(self, value: Line) -> Skip:
        return self.messages.show_message("user", value.get("content"))

    def _call(self, entry: Line, index: int) -> Skip:
        call_id, function = entry.get("id"), record(entry.get("function"))
        name = function.get("name")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", entry)
        return self.messages.show_call(call_id, name, function.get("arguments"), entry, place=(None, index))

    @line("tool", tool_call_id=str)
    def _result(self, value: Line) -> Skip:
        """Read a result. Its content is the text for the model; Kimi Code's program adds notes to some."""
        if not self.calls.is_known(value["tool_call_id"]):
            self.ensure_turn()
        return self.messages.answer_call(value["tool_call_id"], value, "content", for_model=True)


# -- sessions of Kimi CLI ----------------------------------------------------------------------------------------


class KimiStoredWireState(KimiState, kw_only=True):
    wire: WireState = msgspec.field(default_factory=WireState)


class KimiStoredWire(Parser):
    """The `kimi-wire` dialect: the files that Kimi CLI, before Kimi Code, kept for each session, `wire.jsonl`.

    Each line is a message of the wire mode with its time: `{timestamp, message: {type, payload}}`. There is no answer
    to a prompt, so `TurnEnd` ends a turn; where that is missing, the next prompt does. Requests of the agent are among
    the messages. The path names the session.
    """

    dialect = "kimi-wire"
    STATES_TIMES = True
    protocol = default_provider = "kimi"
    SKIPS = KimiWire.SKIPS | {"metadata"}
    state_type = KimiStoredWireState
    state: KimiStoredWireState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.messages = KimiMessages(self, self.state)
        self.wire = KimiWire(self, self.state.wire, self.messages)

    def read(self, value: Line) -> Skip:
        if value.get("type") == "metadata":
            return "metadata"
        seconds = number(value.get("timestamp"))
        if seconds is not None and 0 <= seconds * 1000 < LATEST_MS:
            self.ts = round(seconds * 1000)
        return self.wire.read_stored(record(value.get("message")), value)

    def finish(self, reason: str) -> None:
        self.wire.finish()


# -- sessions of Kimi Code ----------------------------------------------------------------------------------------

MAIN = "main"
_COUNTS = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
"""Keys of one request's token counts; the first excludes tokens read from and written to the cache."""
_OUTCOMES = {"completed": "completed", "cancelled": "cancelled", "interrupted": "cancelled", "aborted": "cancelled"}
"""Reason of the end of a turn -> outcome; every other is a failure."""
_SKIPPED = {
    "compaction-start": "full_compaction.begin",
    "prompt-context": "context.append_message plugin.session_start",
    "repeated": "agent.message.appended agent.turn.started agent.turn.ended prompt.completed full_compaction.complete"
    " turn.cancel",
    "model-call": "llm.tools_snapshot token_counting.measured token_counting.turn_recorded token_counting.rebased",
    "settings": "metadata runtime.set_binding tools.update_store forked",
    "snapshot": "file_history.tracked file_history.checkpoint",
    "subagent": "subagent.spawned subagent.started subagent.completed subagent.failed",
}
"""Reason -> types of lines that carry no event."""


class KimiSessionState(KimiState, kw_only=True):
    model: str | None = None
    mode: str | None = None


class KimiSession(Parser):
    """The `kimi-session` dialect: the files that Kimi Code keeps for each agent of a session, `wire.jsonl`.

    Learned from Kimi Code 2.1. The lines are an event log of the agent's loop; separate lines repeat what was sent to
    the model. The files of subagents name their agent, and the path names the session.
    """

    dialect = "kimi-session"
    protocol = default_provider = "kimi"
    STATES_TIMES = True
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

    @line("context.undo")
    def _undo(self, value: Line) -> None:
        """Read that the user took the last turns back."""
        self.notice("rewound", "removed", data={"count": value.get("count")})

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
        used = _tokens(event)
        if not any(used.values()):
            return "step"
        self.ensure_turn()
        self.emit(Usage, scope="step", **used, request=string(event.get("messageId")) or string(event.get("uuid")))
        return None

    # -- compaction ---------------------------------------------------------------------------------------------

    @line("context.apply_compaction")
    def _compacted(self, value: Line) -> None:
        self.notice("compaction", string(value.get("summary")))

    @line("usage.record")
    def _used(self, value: Line) -> Skip:
        """Read what a request used that belongs to no step: one that sums up the history. A fork copies the line, which
        has no id, with its time."""
        used = _tokens(value)
        if value.get("usageScope") == "turn" or not any(used.values()):
            return "repeated"
        request = f"{value.get('time')}/{used['input_tokens']}/{used['output_tokens']}"
        self.emit(Usage, scope="step", **used, request=request)
        return None


def _tokens(stated: Line) -> dict[str, int | None]:
    return token_counts(*map(record(stated.get("usage")).get, _COUNTS), apart=True)
