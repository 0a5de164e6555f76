"""Sessions and turns of Copilot CLI: how they begin, what is noted of them, and how they end.

What the process prints ends a turn with `assistant.idle`. A saved session lacks that line, and all that are ephemeral:
there the end of the step whose message called no tool is the end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import take_bodies
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.live_output import LiveOutput, LiveOutputState
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import Call, State
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Message, OutputRef, SessionEvent, Usage

MANY_SERVERS = 256

_SKIPPED = {
    "partial": "assistant.message_start assistant.streaming_delta assistant.tool_call_delta"
    " tool.execution_partial_result",
    "model-call": "model.call_start model.call_final_result",
    "background-tasks": "session.background_tasks_changed",
    "mcp-startup": "session.mcp_server_tools_loaded",
    "catalogue": "session.skills_loaded session.extensions_loaded session.custom_agents_updated",
    "subagent-setup": "subagent.configured subagent.selected subagent.deselected",
    "hook-start": "hook.start",
    "queue": "pending_messages.modified command.queued command.execute command.completed",
    "prompt-context": "system.message skill.invoked",
    "workspace": "session.context_changed session.workspace_file_changed session.plan_changed",
    "compaction-start": "session.compaction_start",
}
"""Reason -> types of lines that carry no event."""

_NOTICES = {
    "abort": ("warning", "interrupt", "reason"),
    "assistant.intent": ("info", "intent", "intent"),
    "assistant.turn_retry": ("warning", "retry", "reason"),
    "model.call_failure": ("warning", "provider-error", "errorMessage"),  # Copilot may try the request again
    "session.compaction_complete": ("info", "compaction", "summaryContent"),
    "session.error": ("error", "provider-error", "message"),
    "session.handoff": ("info", "handoff", "summary"),
    "session.mode_changed": ("info", "config", "newMode"),
    "session.snapshot_rewind": ("info", "rewound", "upToEventId"),
    "session.task_complete": ("info", "task-complete", "summary"),
    "session.truncation": ("info", "compaction", "performedBy"),
    "session.warning": ("warning", "warning", "message"),
    "system.notification": ("info", "notification", "content"),
}
"""Type of line -> level and code of the notice, and the key of its text."""
_NOTICE_DATA = {
    "abort": (),
    "assistant.turn_retry": (),
    "model.call_failure": ("statusCode", "retryAttempt", "failureKind", "errorType"),
    "session.error": ("errorType", "statusCode"),
}
"""Type of line -> what the notice's data has of the line's, unless it is all of it."""
_OUTCOMES = {"abort": "cancelled", "session.error": "failed"}
"""Type of line -> how the open turn will end, now that this has happened."""


class CopilotState(State, kw_only=True):
    model: str | None = None
    servers: list[str] = msgspec.field(default_factory=list)
    agents: dict[str, str] = msgspec.field(default_factory=dict)
    """Subagent -> id of the call that spawned it."""
    outcome: str | None = None
    """How the open turn will end, where something went wrong."""
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    answered: bool = False
    """The main agent's last message called no tool, so it is the answer unless more comes."""
    live: bool = False
    """The stream is what the process prints, and not a saved session, which lacks `assistant.idle`."""
    thought: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Agent -> CRC of its last reasoning, and CRCs of all of it in this step: it comes apart, and with the message."""
    context: tuple[int | None, int | None] | None = None
    """(used, size) of the context, as emitted last."""


class CopilotSession(Parser):
    protocol = default_provider = "copilot"
    line = Lines("type", skip={kind: reason for reason, kinds in _SKIPPED.items() for kind in kinds.split()})
    state: CopilotState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.running = LiveOutput(self, self.state.running)

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.running.take(call.id)

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        agent = value.get("agentId")
        if type(agent) is str and value.get("type") != "result":
            self.agent = agent
            parent = record(value.get("data")).get("parentToolCallId")
            self.parent = string(parent) or self.state.agents.get(agent)

    def read(self, value: Line) -> Skip:
        """Each method gets the line and its `data`. Of a line that carries no event, nothing but its type is read."""
        kind, data = value.get("type"), value.get("data")
        if type(kind) is str and kind in self.line.skip:
            return self.line.skip[kind]
        self.enter(value)
        return self.line.read(self, value, data if type(data) is dict else {})

    # -- session and turns --------------------------------------------------------------------------------------

    @line("session.start", "session.resume")
    def _session(self, value: Line, data: Line) -> None:
        if session := string(data.get("sessionId")):
            self.set_session(session)
        state = self.state
        place = record(data.get("context"))
        state.cwd = string(place.get("cwd")) or state.cwd
        state.model = string(data.get("selectedModel")) or state.model
        what = "started" if value["type"] == "session.start" else "resumed"
        version = string(data.get("copilotVersion"))
        root, branch = string(place.get("gitRoot")), string(place.get("branch"))
        self.emit(
            SessionEvent,
            state=what,
            cwd=state.cwd,
            root=root,
            branch=branch,
            model=state.model,
            agent_version=version,
        )

    @line("session.title_changed")
    def _title(self, value: Line, data: Line) -> None:
        self.emit(SessionEvent, state="updated", title=string(data.get("title")))

    @line("session.model_change", "session.tools_updated")
    def _model(self, value: Line, data: Line) -> Skip:
        self.state.live |= value.get("ephemeral") is True
        model = string(data.get("newModel")) or string(data.get("model"))
        return None if self.uses_model(model) else "unchanged"

    @line("session.mcp_servers_loaded")
    def _servers(self, value: Line, data: Line) -> None:
        servers = [one for one in records(data.get("servers")) if isinstance(one.get("name"), str)]
        self._add_servers([one["name"] for one in servers])
        self.emit(SessionEvent, state="updated", mcp_servers=[stated(one, "name", "status") for one in servers])

    @line("session.mcp_server_status_changed")
    def _server(self, value: Line, data: Line) -> Skip:
        self.state.live |= value.get("ephemeral") is True
        if name := string(data.get("serverName")):
            self._add_servers([name])
        if data.get("status") != "failed":
            return "mcp-startup"
        self.notice("mcp-startup", string(data.get("error")) or name, "error", data)
        return None

    def _add_servers(self, names: list[str]) -> None:
        self.state.servers = list(dict.fromkeys([*self.state.servers, *names]))[:MANY_SERVERS]

    @line("user.message")
    def _user(self, value: Line, data: Line) -> Skip:
        _, attachments = take_bodies(self, data.get("attachments"))
        text = string(data.get("content")) or ""
        source = string(data.get("source"))
        role = "user" if source is None or self.agent is not None else "system"  # a skill, for example, adds a message
        if self.agent is None and role == "user" and (self.turn is None or data.get("delivery") == "idle"):
            self._end_open_turn()
            self.start_turn(string(data.get("interactionId")))
        if text or attachments:
            message_id = string(data.get("messageId"))
            self.emit(Message, role=role, text=text, message_id=message_id, attachments=attachments)
        return None if self.items else "empty"

    @line("assistant.idle", "session.idle")
    def _idle(self, value: Line, data: Line) -> Skip:
        if self.agent is not None or self.turn is None:
            return "unchanged"
        self._end_turn("completed")
        return None

    def _end_turn(self, outcome: str, **how: Any) -> None:
        """End the turn: as something that went wrong made it end, else with this outcome."""
        state = self.state
        outcome = state.outcome or outcome
        state.outcome, state.answered = None, False
        self.end_turn(outcome, **how)

    def _end_open_turn(self) -> None:
        """End a turn, if one is open, whose end the stream does not state."""
        if self.turn is not None:
            self._end_turn("completed" if self.state.answered else "cancelled", synthetic=True)
        self.state.outcome, self.state.answered = None, False

    def finish(self, reason: str) -> None:
        """What went wrong is stated, though the end is not."""
        if self.state.outcome is not None and self.turn is not None:
            self._end_turn("completed", ended_by="eof")

    @line("assistant.turn_start")
    def _step_starts(self, value: Line, data: Line) -> Skip:
        self.state.thought.pop(self.agent or "", None)
        return "step"

    @line("assistant.turn_end")
    def _step_ends(self, value: Line, data: Line) -> Skip:
        """The answer is whole. Only the process's output states that nothing follows it; in a saved session this is the
        last word."""
        state = self.state
        if self.agent is not None or state.live or not state.answered or self.turn is None:
            return "step"
        self._end_turn("completed", ended_by="answer")
        return None

    @line("session.shutdown")
    def _shutdown(self, value: Line, data: Line) -> None:
        kind = string(data.get("shutdownType"))
        self.notice("shutdown", string(data.get("errorReason")) or kind, data=data)
        if kind == "error":
            self.state.outcome = self.state.outcome or "failed"
        self._end_open_turn()

    @line("result")
    def _result(self, value: Line, data: Line) -> Skip:
        """The process ends, and states the session's id."""
        if session := string(value.get("sessionId")):
            self.set_session(session)
        if self.turn is not None:
            self._end_turn("failed" if whole(value.get("exitCode")) else "completed")
        return None if self.items else "unchanged"

    # -- notices and usage --------------------------------------------------------------------------------------

    @line(*_NOTICES)
    def _notice(self, value: Line, data: Line) -> None:
        kind = value["type"]
        level, code, key = _NOTICES[kind]
        if self.agent is None:  # a subagent's failure is its call's
            self.state.outcome = _OUTCOMES.get(kind, self.state.outcome)
        if kind == "assistant.turn_retry":
            self._discard_half_answer()
        given = stated(data, *_NOTICE_DATA[kind]) or None if kind in _NOTICE_DATA else data
        self.notice(code, string(data.get(key)), level, given)

    def _discard_half_answer(self) -> None:
        """Drop what was received of an answer, because the model is asked for it again."""
        texts = self.state.texts.open
        for key in [key for key, text in texts.items() if (text.session, text.agent) == (self.session, self.agent)]:
            del texts[key]

    @line("session.info")
    def _info(self, value: Line, data: Line) -> Skip:
        code = string(data.get("infoType")) or "info"
        if code == "model_retry":
            return "unchanged"  # repeats `assistant.turn_retry`
        self.notice(code, string(data.get("message")))
        return None

    @line("hook.end")
    def _hook(self, value: Line, data: Line) -> None:
        event = string(data.get("hookType"))
        outcome, level = ("success", "info") if data.get("success") is True else ("error", "warning")
        words = string(record(data.get("error")).get("message")) or event
        self.notice("hook", words, level, {"event": event, "outcome": outcome})

    @line("assistant.usage", "model.call_finished")
    def _usage(self, value: Line, data: Line) -> Skip:
        """What one request used. Copilot states tokens for models it serves itself, not for those of one's own key."""
        self.state.live |= value.get("ephemeral") is True
        return self._emit_usage(data)

    @line("session.usage_record")
    def _stored_usage(self, value: Line, data: Line) -> Skip:
        """The same in a stored session."""
        return self._emit_usage(record(data.get("usage")))

    def _emit_usage(self, data: Line) -> Skip:
        prompt, answer = whole(data.get("inputTokens")), whole(data.get("outputTokens"))
        if prompt is None and answer is None:
            return "model-call"
        self.emit(
            Usage,
            scope="step",
            input_tokens=prompt,
            output_tokens=answer,
            cache_read_tokens=whole(data.get("cacheReadTokens")),
            cache_write_tokens=whole(data.get("cacheWriteTokens")),
            reasoning_tokens=whole(data.get("reasoningTokens")),
            model=string(data.get("model")),
        )
        return None

    @line("session.usage_info")
    def read_context(self, value: Line, data: Line, used: str = "currentTokens", size: str = "tokenLimit") -> Skip:
        context = whole(data.get(used)), whole(data.get(size))
        if context[0] is None or self.agent is not None or self.state.context == context:
            return "unchanged"
        self.state.context = context
        self.emit(Usage, scope="session", context_used=context[0], context_size=context[1])
        return None


def stated(data: Line, *keys: str) -> dict[str, Any]:
    """The values under these keys, those that are null left out."""
    return {key: data[key] for key in keys if data.get(key) is not None}
