"""The `copilot-json` dialect: `copilot --output-format json`.

Learned from Copilot CLI 1.0.102; types that are not in recordings are from the session events of GitHub's Copilot SDK.
Every line has `type`, `data`, `id` and `timestamp`, a subagent's line also `agentId`; the last line, `result`, is flat,
and in a printed stream it is the first to name the session. What Copilot calls a turn is one request to the model with
its tools. Our turn lasts from the user's message to `assistant.idle`. A saved session lacks this and all other
ephemeral lines: there a turn ends with the step whose message called no tool.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.background import STEERING, Background, named_task
from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer, Place
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, State, is_short, make_room, put
from tooltap.normalizers.core.texts import LiveOutput, LiveOutputState
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.copilot.answers import notified_end, read_result, started_task, task_end
from tooltap.normalizers.dialects.copilot.usage import CopilotUsage, CopilotUsageState
from tooltap.normalizers.wire.values import first_string, milliseconds, record, records, string, whole
from tooltap.protocol.events import Attachment, Message, OutputRef, SessionEvent, Usage

MANY_SERVERS = 256

_SKIPPED = {
    "partial": "assistant.message_start assistant.streaming_delta assistant.tool_call_delta"
    " tool.execution_partial_result",
    "model-call": "model.call_start model.call_final_result model.turn_started model.model_call_started"
    " model.model_call_success model.message model.response model.turn_ended model.messages_snapshot"
    " session.usage_checkpoint",
    "background-tasks": "session.background_tasks_changed",
    "mcp-startup": "session.mcp_server_tools_loaded",
    "catalogue": "session.skills_loaded session.extensions_loaded session.custom_agents_updated",
    "subagent-setup": "subagent.configured subagent.selected subagent.deselected",
    "hook-start": "hook.start",
    "queue": "pending_messages.modified command.queued command.execute command.completed",
    "prompt-context": "system.message skill.invoked",
    "workspace": "session.context_changed session.workspace_file_changed session.plan_changed",
    "compaction-start": "session.compaction_start",
    "todos": "session.todos_changed",
}
"""Reason -> types of lines that carry no event."""

_NOTICES = {
    "abort": ("warning", "interrupt", "reason"),
    "agent.interrupted": ("warning", "interrupt", "reason"),
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
"""Type of line -> keys of the line's `data` that go to the notice's data; without an entry, all of them do."""
_OUTCOMES = {"abort": "cancelled", "agent.interrupted": "cancelled", "session.error": "failed"}
"""Type of line -> outcome of the open turn after it."""


class CopilotState(State, kw_only=True):
    model: str | None = None
    servers: list[str] = msgspec.field(default_factory=list)
    agents: dict[str, str] = msgspec.field(default_factory=dict)
    """Subagent -> id of the call that spawned it."""
    tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """`<session>/<background shell or agent>` -> id of the call that started it."""
    outcome: str | None = None
    """Outcome of the open turn, if an error or an abort was stated."""
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    answered: bool = False
    """True if the main agent's last message called no tool: it is the answer, unless more follows."""
    live: bool = False
    """The stream is what the process prints, and not a saved session, which lacks `assistant.idle`."""
    thought: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Agent -> CRC of its last reasoning, followed by CRCs of all its reasoning in this step, one per separator:
    reasoning is stated in pieces, and again as a whole with the message."""
    assets: dict[str, Attachment] = msgspec.field(default_factory=dict)
    """Id -> a stored picture or document, which a later result or message refers to."""
    context: tuple[int | None, int | None] | None = None
    """Last emitted (used, size) of the context."""
    usage: CopilotUsageState = msgspec.field(default_factory=CopilotUsageState)


_AGENT_ENDS = {"subagent.completed": "completed", "subagent.failed": "failed"}
MANY_AGENTS = 1_024
MANY_ASSETS = 256
_JOINTS = (b"", b"\n", b"\n\n")
"""Separators between the pieces of reasoning that a message repeats."""

_DENIED_BY = {
    "denied-by-rules": "policy",
    "denied-by-content-exclusion-policy": "policy",
    "denied-by-permission-request-hook": "hook",
    "denied-interactively-by-user": "user",
    "denied-no-approval-rule-and-could-not-request-from-user": "policy",
}
"""Kind of a denied permission -> who denied it."""


class CopilotJson(Parser):
    dialect = "copilot-json"
    STATES_END = True
    protocol = default_provider = "copilot"
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "repeated", "step", "unchanged"})
    line = Lines("type", skip={kind: reason for reason, kinds in _SKIPPED.items() for kind in kinds.split()})
    state_type = CopilotState
    state: CopilotState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.running = LiveOutput(self, self.state.running)
        self.usage = CopilotUsage(self, self.state.usage)
        self.background = Background(self, self.calls, self.state.tasks)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.running.take(call)

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        agent = value.get("agentId")
        if type(agent) is str and value.get("type") != "result":
            self.agent = agent
            parent = record(value.get("data")).get("parentToolCallId")
            self.parent = string(parent) or self.state.agents.get(agent)

    def read(self, value: Line) -> Skip:
        """Read a line. Methods get the line and its `data`. Of a line that carries no event, only the type is read."""
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
        if what == "resumed":
            self.usage.resume()
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
        _, attachments = self._bodies(data, "attachments")
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
        """End the turn with the outcome of a stated error or abort, else with this outcome."""
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
        """End the background agents whose end no notification stated, and the turn whose failure was stated, though
        its end was not."""
        for call in list(self.state.calls.open.values()):
            if call.acknowledged and (ended := call.memory.get("ended")):
                self.calls.answer(call, Answer(None, ended), raw=None, final=True, synthetic=True)
        if self.state.outcome is not None and self.turn is not None:
            self._end_turn("completed", ended_by="eof")

    @line("assistant.turn_start")
    def _step_starts(self, value: Line, data: Line) -> Skip:
        self.state.thought.pop(self.agent or "", None)
        return "step"

    @line("assistant.turn_end")
    def _step_ends(self, value: Line, data: Line) -> Skip:
        """End the turn of a saved session if this step's message was the answer. A live stream states the end later, in
        `assistant.idle`."""
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
        self.usage.total(data)

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
        if kind == "session.compaction_complete":
            self.usage.compaction(data)
        elif kind == "system.notification" and (ended := notified_end(record(data.get("kind")))) is not None:
            task, answer = ended
            self._end_task(self.background.running(task), answer, data)

    def _discard_half_answer(self) -> None:
        """Drop the part of an answer received so far, because the model is asked again."""
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
        self.state.live |= value.get("ephemeral") is True
        return None if self.usage.request(data) else "model-call"

    @line("session.usage_record")
    def _stored_usage(self, value: Line, data: Line) -> Skip:
        """Read the usage of one request in a saved session."""
        return None if self.usage.request(record(data.get("usage"))) else "model-call"

    @line("session.usage_info")
    def read_context(self, value: Line, data: Line, used: str = "currentTokens", size: str = "tokenLimit") -> Skip:
        """Emit the used size of the context and its limit, if they are new. `used`, `size`: their keys."""
        context = whole(data.get(used)), whole(data.get(size))
        if context[0] is None or self.agent is not None or self.state.context == context:
            return "unchanged"
        self.state.context = context
        self.emit(Usage, scope="session", context_used=context[0], context_size=context[1])
        return None

    # -- messages -----------------------------------------------------------------------------------------------

    @line("assistant.message_delta", "assistant.reasoning_delta")
    def _delta(self, value: Line, data: Line) -> Skip:
        is_text = value["type"] == "assistant.message_delta"
        role, key = ("assistant", "messageId") if is_text else ("reasoning", "reasoningId")
        message_id = string(data.get(key))
        if text := string(data.get("deltaContent")):
            self.state.live = True
            self.ensure_turn()
            self.texts.append(role, text, message_id=message_id, key=f"{role}\n{message_id}", preview=True)
        return "partial"

    @line("assistant.reasoning")
    def _reasoning(self, value: Line, data: Line) -> Skip:
        self.ensure_turn()
        return self._think(data.get("content"), string(data.get("reasoningId")))

    def _think(self, text: Any, message_id: str | None) -> Skip:
        """Emit reasoning, unless it was emitted before: alone, or as pieces that this text joins."""
        self.texts.drop(f"reasoning\n{message_id}")
        if not isinstance(text, str) or not text:
            return "empty"
        thought, data = self.state.thought, text.encode()
        known, crc = thought.get(self.agent or ""), zlib.crc32(data)
        if known is not None and crc in known:
            return "repeated"
        make_room(thought, MANY_AGENTS)
        joined = [crc] * len(_JOINTS)
        if known is not None:
            joined = [zlib.crc32(joint + data, before) for joint, before in zip(_JOINTS, known[1:], strict=True)]
        thought[self.agent or ""] = [crc, *joined]
        self.emit_text("reasoning", text, message_id=message_id)
        return None

    @line("assistant.message")
    def _assistant(self, value: Line, data: Line) -> Skip:
        self.ensure_turn()
        message_id, thoughts = string(data.get("messageId")), string(data.get("reasoningText"))
        if self.state.texts.open:
            self._end_received_thoughts(dropped=bool(thoughts))
            self.texts.drop(f"assistant\n{message_id}")
        self._think(thoughts, message_id)
        if text := string(data.get("content")):
            self.emit_text("assistant", text, message_id=message_id)
        requests = records(data.get("toolRequests"))
        for index, request in enumerate(requests):
            self._show(value, request, "name", "pending", (None, index))
        if self.agent is None:
            self.uses_model(string(data.get("model")))
        self.usage.message(data)
        if self.agent is None:
            self.state.answered = bool(text) and not requests
            if self.state.outcome == "failed":
                self.state.outcome = None  # the model answered after all
        return None if self.items else "empty"

    def _end_received_thoughts(self, *, dropped: bool) -> None:
        """End the pieces of reasoning that preceded a message. `dropped`: the message repeats them, so drop them;
        otherwise emit them."""
        prefix = f"{self.session}\n{self.agent or ''}\n"
        for key in [key for key in self.state.texts.open if key.startswith(f"{prefix}reasoning\n")]:
            name = key.removeprefix(prefix)
            if dropped:
                self.texts.drop(name)
            else:
                self.texts.flush(name, complete=True)

    # -- calls and permissions --------------------------------------------------------------------------------

    @line("tool.execution_start")
    def _show(
        self,
        value: Line,
        data: Line,
        name_key: str = "toolName",
        status: str = "running",
        place: Place | None = None,
    ) -> Skip:
        call_id, name = data.get("toolCallId"), data.get(name_key)
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", data)
        self.ensure_turn()
        given, canonical, title = data.get("arguments"), self._mcp_name(name, data), string(data.get("toolTitle"))
        fields: dict[str, Any] = {"name": canonical, "status": status, "title": title}
        skip = self.calls.show(call_id, name, given, raw=data, renames=True, place=place, **fields)
        call = self.calls.get(call_id)
        if call is not None and call.name in STEERING and (task := named_task(given)) is not None:
            self.calls.remember(call, {"task": task})
        return skip

    def _mcp_name(self, name: str, data: Line) -> str | None:
        """The canonical name of `<server>-<tool>`, where the line names the server or the session announced it."""
        server, tool = string(data.get("mcpServerName")), string(data.get("mcpToolName"))
        if server and tool:
            return f"mcp__{server}__{tool}"
        if "-" not in name:
            return None
        servers = sorted([*self.state.servers, *self.context.mcp_servers], key=len, reverse=True)
        server = next((one for one in servers if name.startswith(f"{one}-")), None)
        return f"mcp__{server}__{name.removeprefix(f'{server}-')}" if server is not None else None

    @line("tool.shell_output")
    def _shell_output(self, value: Line, data: Line) -> Skip:
        """Read output of a running command, exactly as printed. The result repeats it, unless it is long."""
        call, text = self.calls.get(str(data.get("toolCallId"))), string(data.get("text"))
        if call is None or not text:
            return "partial"
        self.running.append(call, string(data.get("stream")) or "stdout", text.encode())
        return None

    @line("tool.execution_progress")
    def _progress(self, value: Line, data: Line) -> Skip:
        call = self.calls.get(str(data.get("toolCallId")))
        if call is None:
            return "partial"
        self.calls.update(call, progress={"text": string(data.get("progressMessage")) or ""})
        return None

    @line("tool.execution_complete")
    def _complete(self, value: Line, data: Line) -> Skip:
        call_id = data.get("toolCallId")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", data)
        self.ensure_turn()
        raw, attachments = self._bodies(data, "binaryResultsForLlm")
        printed, outputs = self.running.take(call_id) if self.state.running.calls else (None, None)
        answer = read_result(self.calls.name_of(call_id) or "", raw, printed, outputs)
        if attachments is not None:
            answer = answer.replace(attachments=attachments)
        raw_name = string(data.get("toolName")) or UNKNOWN_TOOL
        call = self.calls.due(call_id)
        outcome = self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)
        text = string(record(data.get("result")).get("content")) or ""
        if answer.is_async:
            self.background.began(started_task(text), call_id)
        elif call is not None and call.memory and answer.status == "completed":
            started = self.background.running(call.memory.get("task"))
            if started is not None and (ended := task_end(call.name, text, started.name)) is not None:
                self._end_task(started, ended, raw)
        metrics = record(record(data.get("toolTelemetry")).get("metrics"))
        self.read_context(value, metrics, "context_current_tokens", "context_token_limit")
        return outcome

    def _end_task(self, started: OpenCall | None, answer: Answer, raw: Line) -> None:
        """Emit the final result of a call whose background task has ended. What the task printed after the
        acknowledgement is its output, of which a poll states a part."""
        if started is None:
            return
        printed, outputs = self.running.take(started)
        if printed:
            answer = answer.replace(value={**record(answer.value), **printed}, outputs=outputs)
        self.background.ended(started, answer, raw=raw)

    @line("session.binary_asset")
    def _asset(self, value: Line, data: Line) -> Skip:
        """Store a picture that a later line refers to."""
        asset_id, attachments = data.get("assetId"), take_bodies(self, data)[1]
        if attachments is None or not is_short(asset_id):
            return "empty"
        put(self.state.assets, asset_id, attachments[0], MANY_ASSETS)
        return None

    def _bodies(self, data: Line, key: str) -> tuple[Line, list[Attachment] | None]:
        """Move base64 data out of a line. Returns its `data`, and what it attaches: its own, and the assets named by
        the objects under `key`."""
        raw, attachments = take_bodies(self, data)
        named = records(data.get(key)) or records(record(data.get("result")).get(key))
        assets = [self.state.assets.get(str(one.get("assetId"))) for one in named]
        return raw, [*(attachments or []), *(one for one in assets if one is not None)] or None

    @line("subagent.started", "subagent.completed", "subagent.failed")
    def _subagent(self, value: Line, data: Line) -> Skip:
        call_id = string(data.get("toolCallId"))
        if self.agent is not None and call_id is not None:
            make_room(self.state.agents, MANY_AGENTS)
            self.state.agents[self.agent] = call_id
        call = self.calls.get(call_id or "")
        if call is None:
            return "subagent-setup"
        if value["type"] != "subagent.started":
            self.calls.remember(call, {"ended": _AGENT_ENDS[value["type"]]})
        facts = stated(data, "agentName", "model", "totalToolCalls", "totalTokens", "durationMs", "error")
        text = first_string(data, "agentDisplayName", "agentName") or ""
        self.calls.update(call, progress={"text": text, "data": facts})
        return None

    @line("permission.requested", "permission.completed")
    def _permission(self, value: Line, data: Line) -> Skip:
        permission_id = string(data.get("requestId"))
        if permission_id is None:
            return self.unparsed("unknown-type", data)
        if value["type"] == "permission.completed":
            kind = string(record(data.get("result")).get("kind")) or ""
            outcome = "allowed" if kind.startswith("approved") else "denied"
            self.permissions.answer(permission_id, outcome, by=_DENIED_BY.get(kind))
        else:
            request = record(data.get("permissionRequest"))
            call_id = string(request.get("toolCallId"))
            known = call_id if call_id is not None and self.calls.is_known(call_id) else None
            self.permissions.ask(permission_id, call_id=known, title=string(request.get("intention")))
        return None


def stated(data: Line, *keys: str) -> dict[str, Any]:
    """Return the values under these keys, without nulls."""
    return {key: data[key] for key in keys if data.get(key) is not None}
