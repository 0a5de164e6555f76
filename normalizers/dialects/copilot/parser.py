"""The `copilot-json` dialect: `copilot --output-format json`.

Learned from Copilot CLI 1.0.102. Every line has `type`, `data`, `id` and `timestamp`, a subagent's an `agentId` too;
the last, `result`, is flat and the first to name the session. What Copilot calls a turn is one request to the model and
its tools, a step of ours: ours goes from the user's message to `assistant.idle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.running import Running, RunningState
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.copilot.results import read_result
from tooltap.normalizers.dialects.copilot.tables import NOTICES, OUTCOMES, SKIPPED
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Message, Notice, OutputRef, Reasoning, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["CopilotJson"]

MANY_AGENTS = 1_024
MANY_SERVERS = 256

Data = dict[str, Any]


class CopilotState(State, kw_only=True):
    model: str | None = None
    servers: list[str] = msgspec.field(default_factory=list)
    agents: dict[str, str] = msgspec.field(default_factory=dict)
    """Subagent -> id of the call that spawned it."""
    outcome: str | None = None
    """How the open turn will end, where it went wrong."""
    running: RunningState = msgspec.field(default_factory=RunningState)
    context: tuple[int | None, int | None] | None = None
    """(used, size) as last told."""


class CopilotJson(Parser):
    dialect = "copilot-json"
    protocol = "copilot"
    default_provider = "copilot"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "empty", "partial", "unchanged", *SKIPPED.values()})
    state_type = CopilotState
    state: CopilotState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._running = Running(self, self.state.running)
        self._lines: dict[str, Callable[[Data], str]] = {
            "abort": self._abort,
            "assistant.idle": self._idle,
            "assistant.message": self._assistant,
            "assistant.message_delta": self._text_delta,
            "assistant.reasoning": self._reasoning,
            "assistant.reasoning_delta": self._reasoning_delta,
            "assistant.turn_retry": self._retry,
            "assistant.usage": self._usage,
            "hook.end": self._hook,
            "model.call_failure": self._call_failure,
            "model.call_finished": self._usage,
            "permission.completed": self._answered,
            "permission.requested": self._asked,
            "session.error": self._error,
            "session.idle": self._idle,
            "session.info": self._info,
            "session.mcp_server_status_changed": self._server,
            "session.mcp_servers_loaded": self._servers,
            "session.model_change": self._model,
            "session.resume": self._resumed,
            "session.start": self._started,
            "session.title_changed": self._title,
            "session.tools_updated": self._model,
            "session.usage_info": self._context,
            "subagent.completed": self._subagent,
            "subagent.failed": self._subagent,
            "subagent.started": self._subagent,
            "tool.execution_complete": self._complete,
            "tool.execution_progress": self._progress,
            "tool.execution_start": self._start,
            "tool.shell_output": self._shell_output,
            "user.message": self._user,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        kind = str(value.get("type"))
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        if kind == "result":
            return self._result(value)
        data = record(value.get("data"))
        if (agent := string(value.get("agentId"))) is not None:
            self.agent = agent
            self.parent = string(data.get("parentToolCallId")) or self.state.agents.get(agent)
        if kind in SKIPPED:
            return skip(SKIPPED[kind])
        if kind in NOTICES:
            notice = NOTICES[kind]
            self.emit(Notice, level=notice.level, code=notice.code, text=string(data.get(notice.key)) or "", data=data)
            return WITH_EVENTS
        handler = self._lines.get(kind)
        return handler(data) if handler is not None else self.unparsed("unknown-type", value)

    # -- session and turns --------------------------------------------------------------------------------------

    def _started(self, data: Data) -> str:
        return self._session_began(data, "started")

    def _resumed(self, data: Data) -> str:
        return self._session_began(data, "resumed")

    def _session_began(self, data: Data, state: str) -> str:
        if session := string(data.get("sessionId")):
            self.set_session(session)
        self.state.cwd = string(record(data.get("context")).get("cwd")) or self.state.cwd
        self.state.model = string(data.get("selectedModel")) or self.state.model
        self.emit(
            SessionEvent,
            state=state,
            cwd=self.state.cwd,
            model=self.state.model,
            agent_version=string(data.get("copilotVersion")),
        )
        return WITH_EVENTS

    def _title(self, data: Data) -> str:
        self.emit(SessionEvent, state="updated", title=string(data.get("title")))
        return WITH_EVENTS

    def _model(self, data: Data) -> str:
        model = string(data.get("newModel")) or string(data.get("model"))
        if model is None or model == self.state.model:
            return skip("unchanged")
        self.state.model = model
        self.emit(SessionEvent, state="updated", model=model)
        return WITH_EVENTS

    def _servers(self, data: Data) -> str:
        servers = [one for one in records(data.get("servers")) if isinstance(one.get("name"), str)]
        self._announce([one["name"] for one in servers])
        told = [{"name": one["name"], **_known(one, "status")} for one in servers]
        self.emit(SessionEvent, state="updated", mcp_servers=told)
        return WITH_EVENTS

    def _server(self, data: Data) -> str:
        if name := string(data.get("serverName")):
            self._announce([name])
        if data.get("status") != "failed":
            return skip("mcp-startup")
        words = string(data.get("error")) or name or ""
        self.emit(Notice, level="error", code="mcp-startup", text=words, data=data)
        return WITH_EVENTS

    def _announce(self, servers: list[str]) -> None:
        self.state.servers = list(dict.fromkeys([*self.state.servers, *servers]))[:MANY_SERVERS]

    def _user(self, data: Data) -> str:
        bodies = Bodies(self)
        bodies.take(data.get("attachments"))
        text = string(data.get("content")) or ""
        source = string(data.get("source"))
        role = "user" if source is None or self.agent is not None else "system"  # put in by a skill, for example
        if self.agent is None and role == "user" and (self.turn is None or data.get("delivery") == "idle"):
            self.state.outcome = None
            self.start_turn(string(data.get("interactionId")))
        if not text and not bodies.attachments:
            return WITH_EVENTS if self.items else skip("empty")
        self.emit(
            Message, role=role, text=text, message_id=string(data.get("messageId")), attachments=bodies.attachments
        )
        return WITH_EVENTS

    def _idle(self, data: Data) -> str:
        if self.agent is not None or self.turn is None:
            return skip("unchanged")
        self.end_turn(self.state.outcome or "completed")
        return WITH_EVENTS

    def _result(self, value: dict[str, Any]) -> str:
        """The process ends, and tells the session's id."""
        if session := string(value.get("sessionId")):
            self.set_session(session)
        if self.turn is not None:
            code = whole(value.get("exitCode"))
            self.end_turn(self.state.outcome or ("failed" if code else "completed"))
        return WITH_EVENTS if self.items else skip("unchanged")

    def _abort(self, data: Data) -> str:
        self.state.outcome = "cancelled"
        self.emit(Notice, level="warning", code="interrupt", text=string(data.get("reason")) or "")
        return WITH_EVENTS

    def _error(self, data: Data) -> str:
        self.state.outcome = "failed"
        told = _known(data, "errorType", "statusCode")
        words = string(data.get("message")) or ""
        self.emit(Notice, level="error", code="provider-error", text=words, data=told or None)
        return WITH_EVENTS

    def _call_failure(self, data: Data) -> str:
        """One request failed; it may be tried again."""
        told = _known(data, "statusCode", "retryAttempt", "failureKind", "errorType")
        words = string(data.get("errorMessage")) or ""
        self.emit(Notice, level="warning", code="provider-error", text=words, data=told or None)
        return WITH_EVENTS

    def _retry(self, data: Data) -> str:
        self.emit(Notice, level="warning", code="retry", text=string(data.get("reason")) or "")
        return WITH_EVENTS

    def _info(self, data: Data) -> str:
        code = string(data.get("infoType")) or "info"
        if code == "model_retry":
            return skip("unchanged")  # says `assistant.turn_retry` once more
        self.emit(Notice, level="info", code=code, text=string(data.get("message")) or "")
        return WITH_EVENTS

    def _hook(self, data: Data) -> str:
        event = string(data.get("hookType"))
        told = {"event": event, "outcome": "success" if data.get("success") is True else "error"}
        level = "info" if data.get("success") is True else "warning"
        words = string(record(data.get("error")).get("message")) or ""
        self.emit(Notice, level=level, code="hook", text=words or event or "", data=told)
        return WITH_EVENTS

    def _usage(self, data: Data) -> str:
        """Of one request. Copilot gives tokens for models it serves itself, not for those of one's own key."""
        prompt, answer = whole(data.get("inputTokens")), whole(data.get("outputTokens"))
        if prompt is None and answer is None:
            return skip("model-call")
        self.emit(
            Usage,
            scope="step",
            input_tokens=prompt,
            output_tokens=answer,
            cache_read_tokens=whole(data.get("cacheReadTokens")),
            cache_write_tokens=whole(data.get("cacheWriteTokens")),
            reasoning_tokens=whole(data.get("reasoningTokens")),
        )
        return WITH_EVENTS

    def _context(self, data: Data) -> str:
        changed = self._tell_context(whole(data.get("currentTokens")), whole(data.get("tokenLimit")))
        return WITH_EVENTS if changed else skip("unchanged")

    def _tell_context(self, used: int | None, size: int | None) -> bool:
        if used is None or self.agent is not None or self.state.context == (used, size):
            return False
        self.state.context = (used, size)
        self.emit(Usage, scope="session", context_used=used, context_size=size)
        return True

    # -- messages -----------------------------------------------------------------------------------------------

    def _text_delta(self, data: Data) -> str:
        return self._delta("assistant", data, string(data.get("messageId")))

    def _reasoning_delta(self, data: Data) -> str:
        return self._delta("reasoning", data, string(data.get("reasoningId")))

    def _delta(self, role: str, data: Data, message_id: str | None) -> str:
        if text := string(data.get("deltaContent")):
            self.ensure_turn()
            self.texts.append(role, text, message_id=message_id, key=f"{role}\n{message_id}", preview=True)
        return skip("partial")

    def _reasoning(self, data: Data) -> str:
        self.ensure_turn()
        return self._thought(string(data.get("content")), string(data.get("reasoningId")))

    def _thought(self, text: str | None, message_id: str | None) -> str:
        self.texts.drop(f"reasoning\n{message_id}")
        if not text:
            return skip("empty")
        self.emit(Reasoning, text=text, message_id=message_id)
        return WITH_EVENTS

    def _assistant(self, data: Data) -> str:
        self.ensure_turn()
        message_id = string(data.get("messageId"))
        self._thought(string(data.get("reasoningText")), message_id)
        self.texts.drop(f"assistant\n{message_id}")
        if text := string(data.get("content")):
            self.emit(Message, role="assistant", text=text, message_id=message_id)
        for request in records(data.get("toolRequests")):
            self._open(request, request.get("name"), "pending")
        return WITH_EVENTS if self.items else skip("empty")

    # -- calls --------------------------------------------------------------------------------------------------

    def _open(self, data: Data, name: Any, status: str) -> str:
        call_id = data.get("toolCallId")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", data)
        self.ensure_turn()
        arguments, title, canonical = data.get("arguments"), string(data.get("toolTitle")), self._mcp_name(name, data)
        call = self.calls.get(call_id)
        if call is not None:
            changed = self.calls.update(call, arguments, raw=data, name=canonical, status=status, title=title)
            return WITH_EVENTS if changed else skip("unchanged")
        if self.calls.repeats(call_id, name, arguments, name=canonical):
            return skip("unchanged")
        self.calls.open(call_id, name, arguments, raw=data, name=canonical, status=status, title=title)
        return WITH_EVENTS

    def _mcp_name(self, name: str, data: Data) -> str | None:
        """`<server>-<tool>`, where the line names the server or it was announced."""
        server, tool = string(data.get("mcpServerName")), string(data.get("mcpToolName"))
        if server and tool:
            return f"mcp__{server}__{tool}"
        for announced in sorted([*self.state.servers, *self.context.mcp_servers], key=len, reverse=True):
            if name.startswith(f"{announced}-"):
                return f"mcp__{announced}__{name.removeprefix(f'{announced}-')}"
        return None

    def _start(self, data: Data) -> str:
        return self._open(data, data.get("toolName"), "running")

    def _shell_output(self, data: Data) -> str:
        """Exactly what the command prints. The result says it again, unless it is long."""
        call = self.calls.get(str(data.get("toolCallId")))
        text = string(data.get("text"))
        if call is None or not text:
            return skip("partial")
        self._running.append(call, string(data.get("stream")) or "stdout", text.encode())
        return WITH_EVENTS

    def _progress(self, data: Data) -> str:
        call = self.calls.get(str(data.get("toolCallId")))
        if call is None:
            return skip("partial")
        self.calls.update(call, progress={"text": string(data.get("progressMessage")) or ""})
        return WITH_EVENTS

    def _complete(self, data: Data) -> str:
        call_id = data.get("toolCallId")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", data)
        self.ensure_turn()
        bodies = Bodies(self)
        raw = bodies.take(data)
        printed, outputs = self._running.take(call_id)
        answer = read_result(self.calls.name_of(call_id) or "", raw, printed)
        line_class = self.calls.result(
            call_id,
            answer.value,
            raw=raw,
            raw_name=string(data.get("toolName")) or UNKNOWN_TOOL,
            status=answer.status,
            error=answer.error,
            display=answer.display,
            attachments=bodies.attachments,
            is_async=answer.is_async,
            outputs=outputs if answer.is_printed else None,
        )
        metrics = record(record(data.get("toolTelemetry")).get("metrics"))
        self._tell_context(whole(metrics.get("context_current_tokens")), whole(metrics.get("context_token_limit")))
        return line_class

    def _subagent(self, data: Data) -> str:
        call_id = string(data.get("toolCallId"))
        if self.agent is not None and call_id is not None:
            while len(self.state.agents) >= MANY_AGENTS:
                del self.state.agents[next(iter(self.state.agents))]
            self.state.agents[self.agent] = call_id
        call = self.calls.get(call_id or "")
        if call is None:
            return skip("subagent-setup")
        told = _known(data, "agentName", "model", "totalToolCalls", "totalTokens", "durationMs", "error")
        text = string(data.get("agentDisplayName")) or string(data.get("agentName")) or ""
        self.calls.update(call, progress={"text": text, "data": told})
        return WITH_EVENTS

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self._running.take(call.id)

    # -- permissions --------------------------------------------------------------------------------------------

    def _asked(self, data: Data) -> str:
        request = record(data.get("permissionRequest"))
        permission_id = string(data.get("requestId"))
        if permission_id is None:
            return self.unparsed("unknown-type", data)
        call_id = string(request.get("toolCallId"))
        known = call_id if call_id is not None and self.calls.is_known(call_id) else None
        self.permissions.ask(permission_id, call_id=known, title=string(request.get("intention")))
        return WITH_EVENTS

    def _answered(self, data: Data) -> str:
        permission_id = string(data.get("requestId"))
        if permission_id is None:
            return self.unparsed("unknown-type", data)
        kind = string(record(data.get("result")).get("kind")) or ""
        outcome, by = OUTCOMES.get(kind, ("allowed" if kind.startswith("approved") else "denied", None))
        self.permissions.answer(permission_id, outcome, by=by)
        return WITH_EVENTS


def _known(data: Data, *keys: str) -> Data:
    return {key: data[key] for key in keys if data.get(key) is not None}
