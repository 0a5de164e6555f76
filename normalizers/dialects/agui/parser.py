"""The `ag-ui` dialect: the events of runs of an agent behind the AG-UI protocol."""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState, make_room, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import record, records, string, token_counts, whole
from tooltap.protocol.events import Message, Usage

MANY_CALLS = 64
"""Maximum number of calls whose arguments are coming."""
MANY_MESSAGES = 512
"""Maximum number of messages of which it is remembered who says them, or that they were read."""
_OUTCOMES = {"cancelled": "cancelled", "interrupt": "completed"}


class ComingCall(msgspec.Struct, omit_defaults=True):
    name: str
    arguments: str = ""


class AgUiState(SessionState, kw_only=True):
    coming: dict[str, ComingCall] = msgspec.field(default_factory=dict)
    """Call -> its arguments so far."""
    roles: dict[str, str] = msgspec.field(default_factory=dict)
    """Message -> who says it."""
    prompts: dict[str, bool] = msgspec.field(default_factory=dict)
    """Messages of users that were emitted."""


class AgUi(Parser):
    """Events of the AG-UI protocol.

    Learned from what Pydantic AI 2.68 sends, and from the protocol's own models (1.0). A thread is a session, a run a
    turn. Texts and arguments come in pieces between a start and an end, or in chunks without them; a call is emitted
    when its arguments are complete.
    """

    dialect = "ag-ui"
    protocol = default_provider = "ag-ui"
    STATES_END = True
    SKIPS = frozenset({"framing", "partial", "unchanged"})
    line = Lines(
        skip={
            "ACTIVITY_DELTA": "display",
            "ACTIVITY_SNAPSHOT": "display",
            "RAW": "repeated",
            "REASONING_ENCRYPTED_VALUE": "redacted-thinking",
            "REASONING_START": "started",
            "STATE_DELTA": "display",
            "STATE_SNAPSHOT": "display",
            "STEP_FINISHED": "step",
            "STEP_STARTED": "step",
            "SUBAGENT_FINISHED": "subagent",
            "SUBAGENT_STARTED": "subagent",
            "THINKING_START": "started",
        }
    )
    state_type = AgUiState
    state: AgUiState

    def enter(self, value: Line) -> None:
        self.ts = whole(value.get("timestamp")) or self.ts

    def finish(self, reason: str) -> None:
        self._show_coming()

    @line("RUN_STARTED", threadId=str, runId=str)
    def _started(self, value: Line) -> Skip:
        self.give_up_turns()
        if value["threadId"] != self.state.started:
            self.begin_session(value["threadId"])
        self.start_turn(value["runId"])
        self._prompts(records(record(value.get("input")).get("messages")))
        return None

    @line("MESSAGES_SNAPSHOT", messages=list)
    def _snapshot(self, value: Line) -> Skip:
        before = len(self.items)
        self._prompts(records(value["messages"]))
        return None if len(self.items) > before else "unchanged"

    def _prompts(self, messages: list[Line]) -> None:
        """Emit what the user has said; the rest of a conversation has its own events."""
        for message in messages:
            identity = string(message.get("id"))
            if message.get("role") != "user" or identity is None or identity in self.state.prompts:
                continue
            put(self.state.prompts, identity, True, MANY_MESSAGES)
            bodies = Bodies(self)
            text = blocks_text(bodies.take(message.get("content"))) or ""
            self.emit(Message, role="user", text=text, message_id=identity, attachments=bodies.attachments)

    @line("RUN_FINISHED", runId=str)
    def _finished(self, value: Line) -> Skip:
        outcome = record(value.get("outcome"))
        self.ensure_turn()
        self._show_coming()
        for interrupt in records(outcome.get("interrupts")):
            text = string(interrupt.get("message")) or string(interrupt.get("reason"))
            self.notice("interrupt", text, "warning", interrupt)
        for usage in records(value.get("usage")):
            counts = token_counts(
                usage.get("inputTokens"),
                usage.get("outputTokens"),
                usage.get("cachedInputTokens"),
                usage.get("cacheWriteInputTokens"),
                usage.get("reasoningTokens"),
            )
            self.emit(Usage, scope="step", model=string(usage.get("model")), **counts)
        kind = string(outcome.get("type"))
        self.end_turn(_OUTCOMES.get(kind or "", "completed"), reason=kind)
        return None

    @line("RUN_ERROR", message=str)
    def _error(self, value: Line) -> Skip:
        self.ensure_turn()
        self._show_coming()
        self.notice("provider-error", value["message"], "error", {"code": value.get("code")})
        self.end_turn("failed", reason=string(value.get("code")))
        return None

    @line("SUBAGENT_ERROR", message=str)
    def _subagent_error(self, value: Line) -> Skip:
        self.notice("subagent-error", value["message"], "error", value)
        return None

    @line("CUSTOM", name=str)
    def _custom(self, value: Line) -> Skip:
        stated = value.get("value")
        self.notice("custom", value["name"], data=stated if isinstance(stated, dict | None) else {"value": stated})
        return None

    # -- texts ----------------------------------------------------------------------------------------------------

    @line("TEXT_MESSAGE_START", messageId=str)
    def _text_start(self, value: Line) -> Skip:
        put(self.state.roles, value["messageId"], string(value.get("role")) or "assistant", MANY_MESSAGES)
        return "started"

    @line("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK")
    def _text(self, value: Line) -> Skip:
        message = string(value.get("messageId"))
        role = string(value.get("role")) or self.state.roles.get(message or "", "assistant")
        return self._append(role if role in ("system", "user") else "assistant", value, message)

    @line("REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT")
    def _reasoning(self, value: Line) -> Skip:
        return self._append("reasoning", value, string(value.get("messageId")))

    def _append(self, role: str, value: Line, message: str | None) -> Skip:
        delta = string(value.get("delta"))
        if not delta:
            return "partial"
        before = len(self.items)
        self.ensure_turn()
        self.texts.append(role, delta, message_id=message)
        return None if len(self.items) > before else "partial"

    @line("TEXT_MESSAGE_END")
    def _text_end(self, value: Line) -> Skip:
        self.state.roles.pop(string(value.get("messageId")) or "", None)
        before = len(self.items)
        self.texts.flush()
        return None if len(self.items) > before else "partial"

    @line("REASONING_MESSAGE_START", "THINKING_TEXT_MESSAGE_START")
    def _reasoning_start(self, value: Line) -> Skip:
        return "started"

    @line("REASONING_END", "REASONING_MESSAGE_END", "THINKING_END", "THINKING_TEXT_MESSAGE_END")
    def _reasoning_end(self, value: Line) -> Skip:
        before = len(self.items)
        self.texts.flush()
        return None if len(self.items) > before else "partial"

    # -- calls ----------------------------------------------------------------------------------------------------

    @line("TOOL_CALL_START", "TOOL_CALL_CHUNK")
    def _call(self, value: Line) -> Skip:
        call_id, name = string(value.get("toolCallId")), string(value.get("toolCallName"))
        if call_id is None:  # a further chunk of the latest call
            call_id = next(reversed(self.state.coming), None)
        if call_id is not None and name is not None and call_id not in self.state.coming:
            make_room(self.state.coming, MANY_CALLS)
            self.state.coming[call_id] = ComingCall(name)
        return self._arguments({**value, "toolCallId": call_id})

    @line("TOOL_CALL_ARGS")
    def _arguments(self, value: Line) -> Skip:
        coming, delta = self.state.coming.get(str(value.get("toolCallId"))), string(value.get("delta")) or ""
        if coming is None:
            return self.unparsed("unknown-type", value)
        if len(coming.arguments) + len(delta) <= self.context.limits.string_bytes:
            coming.arguments += delta
        return "partial"

    @line("TOOL_CALL_END", toolCallId=str)
    def _call_end(self, value: Line) -> Skip:
        before = len(self.items)
        self._show(value["toolCallId"])
        return None if len(self.items) > before else "unchanged"

    @line("TOOL_CALL_RESULT", toolCallId=str)
    def _result(self, value: Line) -> Skip:
        self.ensure_turn()
        self._show(value["toolCallId"])
        bodies = Bodies(self)
        content = bodies.take(value.get("content"))
        answer = Answer(decode_json(content), model=content, attachments=bodies.attachments)
        return self.calls.answer(value["toolCallId"], answer, raw=value)

    def _show_coming(self) -> None:
        for call_id in list(self.state.coming):
            self._show(call_id)

    def _show(self, call_id: str) -> None:
        """Emit a call whose arguments are complete, or of which no more will come."""
        coming = self.state.coming.pop(call_id, None)
        if coming is None:
            return
        self.ensure_turn()
        self.texts.flush()
        raw = {"toolCallId": call_id, "toolCallName": coming.name, "arguments": coming.arguments}
        self.calls.show(call_id, coming.name, decode_json(coming.arguments or "{}"), raw=raw)
