"""ACP, the Agent Client Protocol: JSON-RPC between an editor and an agent, both directions or the agent's side alone.

Learned from Gemini CLI 0.61, OpenCode 1.18, claude-agent-acp 0.23 and 0.100, codex-acp 0.16 and 2.6, Copilot CLI
1.0.102, Qwen Code 0.24.4, Vibe 3.0.2, Kimi Code 2.1 and Droid 0.215, and from the protocol's schemas (v1, v2 and what
is marked unstable in SDK 2.4). Vendors' extensions are read in `inputs` and `answers`, and at the end of this module:
their own methods, which are skipped, and the lineage of subagents in `_meta`.

A turn runs from a `session/prompt` to its answer; v2 states `idle` instead. Where only the agent's side is on the wire,
content opens a turn and an answer with a stop reason ends it.

The parser matches answers with requests, and reads messages. Its helpers read the rest: `sessions` (set-up, changes,
turns, usage), `tool_calls`, `permission_requests` and `terminals`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.answers import CannotWriteError, Chosen
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, State, keep_newest
from tooltap.normalizers.dialects.acp import to_agent
from tooltap.normalizers.dialects.acp.calls import PERMISSIONS, PermissionRequests, ToolCalls, id_in
from tooltap.normalizers.dialects.acp.content import attach, is_block, read_prompt
from tooltap.normalizers.dialects.acp.sessions import AcpSessions, AcpState, PendingRequest, read_usage
from tooltap.normalizers.dialects.acp.terminals import Terminals
from tooltap.normalizers.wire.values import first_string, record, records, string, strings
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import Attachment, Message, Notice, OutputRef, Usage

CLIENT = "in"
AGENT = "out"
ASKED = 1_024
CHILDREN = 256

SKIPPED = {
    method: reason
    for reason, *methods in (
        ("administration", "providers/disable", "providers/list", "providers/set"),
        ("administration", "session/archive", "session/delete", "session/list", "session/status", "session/unarchive"),
        ("auth", "authenticate", "logout", "auth/login", "auth/logout"),
        ("auth", "auth/status", "auth/status_update", "_auth/status_update"),
        ("client-fs", "fs/read_text_file", "fs/write_text_file"),
        ("client-mcp", "mcp/connect", "mcp/disconnect", "mcp/message"),
        ("client-terminal", "terminal/cancel", "terminal/kill", "terminal/release"),
        ("request", "elicitation/complete", "tool_call/cancel"),
    )
    for method in methods
}
"""Method -> why it and its answer are skipped."""

_FROM_AGENT = (
    *("session/update", "session/request_permission", "session/elicitation", "elicitation/"),
    *("fs/", "terminal/", "_auth/", "auth/s"),
)
"""Beginnings of the methods that an agent calls; a client calls all others."""
_SHAPES = (
    ("stopReason", AGENT, "session/prompt"),
    ("outcome", CLIENT, "session/request_permission"),
    ("action", CLIENT, "elicitation/create"),
    ("agentCapabilities", AGENT, "initialize"),
    ("agentInfo", AGENT, "initialize"),
    ("sessions", AGENT, "session/list"),
    ("sessionId", AGENT, "session/new"),
    ("modes", AGENT, "session/load"),
    ("configOptions", AGENT, "session/load"),
)
"""Infers an answer's request if that is not on the wire: (key in the answer, side that answers, method)."""
_BY_AGENT: tuple[str, ...] = (AGENT,)
_BY_CLIENT: tuple[str, ...] = (CLIENT,)
_BY_BOTH: tuple[str, ...] = (CLIENT, AGENT)
"""Sides that may have sent a request, in lookup order."""

_ROLES = {
    "user_message_chunk": "user",
    "agent_message_chunk": "assistant",
    "agent_thought_chunk": "reasoning",
    "user_message": "user",
    "agent_message": "assistant",
    "agent_thought": "reasoning",
}


class Acp(Parser):
    dialect = protocol = default_provider = "acp"
    STATES_END = INTERRUPT_CANCELS = True
    SKIPS = frozenset({"echo", "empty", "extension", "late-update", "partial"})
    state_type = AcpState
    state: AcpState

    request = Lines(
        "method",
        {**SKIPPED, "initialize": "handshake", "session/close": "request"},
        sessions=AcpSessions.request,
        terminals=Terminals.request,
        permission_requests=PermissionRequests.request,
    )
    """Requests and notifications. Methods get the parameters, and the request's key in the state."""
    answer = Lines(
        "method",
        {**SKIPPED, "$/cancel_request": "answer", "session/cancel": "answer"},
        sessions=AcpSessions.answer,
        terminals=Terminals.answer,
        permission_requests=PermissionRequests.answer,
    )
    """Answers, by the method of their request. Methods get the result, the request and its key."""
    update = Lines(
        "sessionUpdate",
        {"plan_removed": "unchanged"},
        sessions=AcpSessions.update,
        terminals=Terminals.update,
        tool_calls=ToolCalls.update,
    )

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.sessions = AcpSessions(self, self.state)
        self.terminals = Terminals(self, self.state)
        self.tool_calls = ToolCalls(self, self.state, self.sessions, self.terminals)
        self.permission_requests = PermissionRequests(self, self.sessions, self.tool_calls)

    def update_session(self, changes: dict[str, Any]) -> Skip:
        """Emit the session's changed fields. They hold even where its history states them."""
        replay, self.replay = self.replay, False
        outcome = super().update_session(changes)
        self.replay = replay
        return outcome

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.tool_calls.unfinished(call)

    # -- to the agent ---------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        return to_agent.word_answer(self.permissions.reply_to(request), chosen, option)

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self.check_session(session, self.state.sessions)
        if self.is_working(session) and not self.state.queues_prompts:
            raise CannotWriteError("this agent is working, and takes the next prompt after that; interrupt it first")
        return to_agent.word_prompt(session, text, id)

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self.check_session(session, self.state.sessions)
        return to_agent.word_cancel(session, id)

    # -- lines ----------------------------------------------------------------------------------------------------

    def read(self, value: Line) -> Skip:
        method = value.get("method")
        if type(method) is not str:
            # A line of a log on the agent's output may have an `id` and a `result`, too.
            if value.get("jsonrpc") == "2.0" and "id" in value and ("result" in value or "error" in value):
                return self._read_answer(value)
            return self.unparsed("unknown-type", value)
        direction, state = self.direction, self.state
        is_agents = direction == AGENT if direction is not None else method.startswith(_FROM_AGENT)
        if not is_agents and (direction is not None or not is_extension(method)):
            state.client_seen = True
        params = record(value.get("params"))
        self.sessions.enter(params.get("sessionId"))
        if method == "session/update":
            return self.read_update(record(params.get("update")), value)
        key = ""
        if "id" in value:
            key = f"{AGENT if is_agents else CLIENT}:{_id_of(value['id'])}"
            asked = state.requests
            asked.pop(key, None)
            asked[key] = PendingRequest(method, self.session, id=value["id"] if method in PERMISSIONS else None)
            if len(asked) > ASKED:
                keep_newest(asked, ASKED)
        if is_extension(method) and not self.request.knows(method):
            self.extensions.append(method)
            return "extension"
        return self.request.read(self, params, key, kind=method, line=value)

    def read_update(self, update: Line, line: Line) -> Skip:
        """Read what a `session/update` says of the session that was entered."""
        if "_meta" in update:
            self.enter_agent(update["_meta"])
        return self.update.read(self, update, line=line)

    def enter_agent(self, meta: Any) -> None:
        """Set the line's scope to the subagent that a vendor's part of an update states."""
        parent, agent = stated_lineage(meta)
        if parent is not None:
            self.agent, self.parent = agent or parent, parent
        elif agent is not None and (spawners := self._spawners_of(agent)):
            self.agent, self.parent = agent, spawners[0] if len(spawners) == 1 else None

    def _spawners_of(self, agent: str) -> list[str]:
        """Return the call that spawned a subagent. If the wire does not state it: the open calls of agents without a
        known subagent; without any, it is no subagent."""
        agents = self.state.agents
        if agent in agents:
            return [agents[agent]]
        taken = agents.values()
        tasks = (call.wire_id or call.id for call in self.state.calls.open.values() if call.name == "Task")
        free = [call_id for call_id in tasks if call_id not in taken and self.calls.session_of(call_id) == self.session]
        if len(free) == 1:
            agents[agent] = free[0]
            keep_newest(agents, CHILDREN)
        return free

    # -- requests -----------------------------------------------------------------------------------------------

    @request("session/prompt")
    def _prompt(self, params: Line, key: str) -> None:
        turn = self.sessions.begin_prompted_turn()
        if key in self.state.requests:
            self.state.requests[key].turn = turn
        text, attachments = read_prompt(self, params.get("prompt"))
        self.emit(Message, role="user", text=text, attachments=attachments)

    @request("session/cancel")
    def _cancel(self, params: Line, key: str) -> None:
        info = self.sessions.info
        info.stopping = self.turn is not None
        info.cutting = info.stopping and self.calls.is_open(self.session, self.turn, self.agent)
        self.notice("interrupt", "The client cancelled the turn.")

    @request("$/cancel_request")
    def _cancel_request(self, params: Line, key: str) -> Skip:
        """One side no longer wants the answer to its request."""
        asked_id = _id_of(params.get("requestId"))
        if self.permissions.is_pending(asked_id):
            self.permissions.answer(asked_id, "cancelled")
            return None
        asked = self.state.requests.get(f"{CLIENT}:{asked_id}")
        if asked is None or asked.method != "session/prompt" or asked.session is None:
            return "request"
        self.sessions.enter(asked.session)
        self._cancel(params, key)
        return None

    # -- answers ------------------------------------------------------------------------------------------------

    def _read_answer(self, value: Line) -> Skip:
        result, error = record(value.get("result")), value.get("error")
        key, asked = self._request_of(_id_of(value["id"]), result)
        if asked is None and isinstance(error, dict) and self.direction != CLIENT:
            asked = PendingRequest("session/prompt" if self.turn is not None else "")
        if asked is None:
            return "answer"
        self.sessions.enter(asked.session)
        if is_extension(asked.method) and (isinstance(error, dict) or not self.answer.knows(asked.method)):
            return "extension"
        if isinstance(error, dict):
            return self._error(asked, key, error)
        return self.answer.read(self, result, asked, key, kind=asked.method, line=value)

    def _request_of(self, answer_id: str, result: Line) -> tuple[str, PendingRequest | None]:
        """The request that an answer belongs to. Both sides number theirs from zero."""
        shape, asked = None, self.state.requests
        for one in _SHAPES:
            if one[0] in result:
                shape = one
                break
        answerer = self.direction or (shape[1] if shape is not None else None)
        askers = _BY_AGENT if answerer == CLIENT else _BY_CLIENT
        if answerer is None and self.state.client_seen:
            askers = _BY_BOTH
        keys = [key for asker in askers if (key := f"{asker}:{answer_id}") in asked]
        if len(keys) == 2:  # a prompt's answer comes after those to what the agent requested for it
            keys = [key for key in reversed(asked) if key in keys]
        if keys:
            return keys[0], asked.pop(keys[0])
        return f"{askers[0]}:{answer_id}", PendingRequest(shape[2]) if shape is not None else None

    def _error(self, asked: PendingRequest, key: str, error: Line) -> Skip:
        text = string(error.get("message"))
        if key.startswith(AGENT):  # the client refused what the agent requested
            if asked.method in PERMISSIONS:
                self.permissions.answer(id_in(key), "cancelled", message=text)
                return None
            return SKIPPED.get(asked.method, "client-terminal")
        data = {name: error[name] for name in ("code", "data") if error.get(name) is not None} or None
        notice = {"level": "error", "code": "provider-error", "text": text or "error", "data": data}
        if asked.method == "session/prompt":
            self.sessions.end_running_turn("failed", asked.turn, before=((Notice, notice),))
        else:
            self.sessions.end_history()
            self.emit(Notice, **notice)
        return None

    @answer("session/prompt")
    def _prompt_answered(self, result: Line, asked: PendingRequest, key: str) -> Skip:
        if result.get("stopReason") is None and self.state.protocol_version >= 2:
            return "answer"  # v2: the prompt is accepted; the turn ends when the session is idle
        if asked.turn is None:
            self.sessions.ensure_turn()
        self.sessions.end_stopped_turn(result, asked.turn)
        return None

    @answer("craft/drainMidTurnQueue")
    def _drained(self, result: Line, asked: PendingRequest, key: str) -> Skip:
        """Emit what the user typed during the turn: Qwen Code asks the client for it between calls, and no other line
        has it. Newer clients send content blocks (`parseMidTurnDrainResponse` in its `Session.ts`)."""
        typed: list[tuple[str, list[Attachment] | None]] = [(text, None) for text in strings(result.get("messages"))]
        if isinstance(result.get("items"), list):
            typed = [read_prompt(self, item.get("content")) for item in records(result["items"])]
        for text, attachments in typed:
            if text.strip() or attachments:
                self.emit_text("user", text, attachments=attachments)
        return None if self.items else "empty"

    # -- updates: messages, thoughts, and what the agent reports beside them -------------------------------------

    @update("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
    def _message_chunk(self, update: Line) -> Skip:
        role, block = _ROLES[update["sessionUpdate"]], update.get("content")
        if type(block) is not dict or not is_block(block):
            return self.unparsed("unknown-type", update)
        if role == "user":
            if self.sessions.is_prompted:
                return "echo"
            self.sessions.read_late_history()
        report, text = record(record(update.get("_meta")).get("claudeCode")), block.get("text")
        if type(kind := report.get("kind")) is str and type(text) is str:  # words of claude-agent-acp (0.101)
            level = report.get("level")
            self.notice(kind.replace("_", "-"), text, level if level in ("warning", "error") else "info")
            return None
        self.sessions.ensure_turn()
        message_id = self.sessions.info.last_message = string(update.get("messageId"))
        if text == "":
            return self._empty_chunk(update)
        if type(text) is str:
            self.texts.append(role, text, message_id=message_id)
            return None
        self.texts.flush()
        if not (attachments := attach(self, block)):
            return self.unparsed("unknown-type", update)
        role = "assistant" if role == "reasoning" else role
        self.emit(Message, role=role, text="", message_id=message_id, attachments=attachments)
        return None

    def _empty_chunk(self, update: Line) -> Skip:
        """Read the token counts of the model's response, which ends with this empty chunk (Qwen Code 0.24.4)."""
        ended, usage = self.sessions.end_block(), read_usage(record(update.get("_meta")), "step")
        if usage is None:
            return None if ended else "empty"
        self.emit(Usage, **usage)
        return None

    @update("user_message", "agent_message", "agent_thought")
    def _whole_message(self, update: Line) -> Skip:
        """v2: a message as a whole, perhaps after its chunks."""
        role, message_id = _ROLES[update["sessionUpdate"]], string(update.get("messageId"))
        if role == "user":
            if self.sessions.is_prompted:
                return "echo"
            self.sessions.read_late_history()
        if not isinstance(update.get("content"), list):
            return "unchanged"
        if message_id is not None and message_id == self.sessions.info.last_message:
            return "partial"
        self.sessions.ensure_turn()
        self.texts.flush()
        text, attachments = read_prompt(self, update["content"])
        shown = {} if role == "reasoning" else {"attachments": attachments}
        self.emit_text(role, text, message_id=message_id, **shown)
        return None

    @update("state_update")
    def _state(self, update: Line) -> Skip:
        """Read the state of the whole session (v2)."""
        info, state = self.sessions.info, update.get("state")
        before, info.state = info.state, string(state)
        if self.turn is None:
            if state != "running":
                return "unchanged"
            self.sessions.ensure_turn()
            return None
        if state != "idle" or (update.get("stopReason") is None and before != "running"):
            return "unchanged"
        self.sessions.end_stopped_turn(update)
        return None

    @update("notice")
    def _agent_notice(self, update: Line) -> None:
        severity = update.get("severity")
        level = severity if severity in ("info", "warning", "error") else "info"
        self.notice("agent", _words(update, "title", "description"), level)

    @update("compaction_update")
    def _compaction(self, update: Line) -> None:
        status = str(update.get("status"))
        summary, _ = read_prompt(self, update.get("summary"))
        text = str(update.get("error") or summary or status)
        self.notice("compaction", text, "error" if status == "failed" else "info", {"status": status})

    @update("compaction_summary_chunk")
    def _compaction_summary(self, update: Line) -> None:
        text, _ = read_prompt(self, [update.get("content")])
        self.texts.append("system", text, message_id=update.get("compactionId"), key="compaction")

    @update("subagent_spawned", "subagent_state_update", "subagent_update")
    def _subagent(self, update: Line) -> Skip:
        """A session of a subagent, announced or changed; its updates carry its own id."""
        child = string(update.get("sessionId") or update.get("subagentSessionId"))
        if child is None:
            return self.unparsed("unknown-type", update)
        self.state.children.setdefault(child, self.session)
        keep_newest(self.state.children, CHILDREN)
        state = string(record(update.get("state")).get("state") or update.get("state"))
        data = {"session": child} if state is None else {"session": child, "state": state}
        text = _words(update, "title", "name", "description", "task") or state or child
        self.notice("subagent", text, data=data)
        return None


def _id_of(request_id: Any) -> str:
    """A JSON-RPC id as a string."""
    if type(request_id) is int:
        return str(request_id)
    return request_id if type(request_id) is str else msgspec.json.encode(request_id).decode()


def _words(update: Line, *keys: str) -> str:
    return ": ".join(filter(None, (string(update.get(key)) for key in keys)))


# -- extensions ------------------------------------------------------------------------------------------------------

_OWN = frozenset({"$", "auth", "elicitation", "fs", "mcp", "providers", "session", "terminal", "tool_call"})
"""First parts of the protocol's own methods. An unknown method under one of them belongs to a newer protocol version,
not to an extension."""
_PARENTS = ("parentToolUseId", "parentToolCallId", "parent_tool_use_id", "parentToolUseID")
"""Keys of the call that spawned a subagent, in the spellings of Claude Code's adapters, Qwen Code 0.24.4 and others."""
_AGENTS = ("agentId", "agent_id")
"""Keys of a subagent's id (Copilot CLI 1.0.102)."""


def is_extension(method: str) -> bool:
    """Return whether a method or kind of update is a vendor's extension, by the form of its name (`_x`, `x/y`)."""
    namespace, separator, _ = method.partition("/")
    return method.startswith("_") or (bool(separator) and namespace not in _OWN)


def stated_lineage(meta: Any) -> tuple[str | None, str | None]:
    """Return (spawning call, subagent) as an update's `_meta` states them."""
    if type(meta) is not dict:
        return None, None
    parent, agent = first_string(meta, *_PARENTS), first_string(meta, *_AGENTS)
    for owner in meta.values():
        if type(owner) is dict:
            parent = parent or first_string(owner, *_PARENTS)
            agent = agent or first_string(owner, *_AGENTS)
    return parent, agent
