"""`codex app-server`: JSON-RPC without `jsonrpc` between Codex and a client such as an editor, protocol version 2.

The agent's notifications are the core's events in other words (`codex_notifications.py`); its requests ask the client
for approvals and answers. Threads that a subagent runs in are told over the same connection: they belong to the session
of the thread that spawned them, whose call is their parent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.base import CODEX_SKIPS, CodexParser
from tooltap.normalizers.dialects.codex.items import snake, snake_keys
from tooltap.normalizers.dialects.codex.notices import codex_mode
from tooltap.normalizers.dialects.codex.notifications import core_event, skip_reason
from tooltap.normalizers.dialects.codex.state import CodexState, Msg, details, object_of, text_of
from tooltap.normalizers.tools.payload import strings
from tooltap.protocol.events import Notice, SessionEvent
from tooltap.protocol.tapped import Direction

__all__ = ["CodexAppServer"]

MANY_CHILDREN = 512

_ASKED = {
    "applyPatchApproval": "apply_patch_approval_request",
    "execCommandApproval": "exec_approval_request",
    "item/commandExecution/requestApproval": "exec_approval_request",
    "item/fileChange/requestApproval": "apply_patch_approval_request",
    "item/permissions/requestApproval": "request_permissions",
    "item/tool/requestUserInput": "request_user_input",
    "mcpServer/elicitation/request": "elicitation_request",
}
"""The agent's requests that a person answers -> the core's event."""

_CALLED = ("account/chatgptAuthTokens/refresh", "attestation/generate", "currentTime/read", "item/tool/call")
"""The agent's requests that the client's program answers; what a tool of the client's gave, its item says."""

_ANSWER_KEYS = ("decision", "action", "answers", "permissions")

_CLIENT_NOTICES = {"turn/interrupt": "interrupt", "thread/rollback": "rewound"}


class Child(msgspec.Struct):
    """A thread that a subagent runs in."""

    session: str
    call_id: str | None = None


class CodexAppServerState(CodexState, kw_only=True):
    children: dict[str, Child] = msgspec.field(default_factory=dict)
    """Thread -> where it belongs."""
    asked: dict[str, str] = msgspec.field(default_factory=dict)
    """JSON-RPC id of a request to the client -> id of the permission it asks for."""


class CodexAppServer(CodexParser):
    dialect = "codex-app-server"
    SKIPS = CODEX_SKIPS | {
        "request",  # of the client
        "answer",  # to a request that says nothing of what the agent does
        "handshake",
        "resolved",  # a request to the client was answered
        "status",  # a thread is active or idle
        "rate-limits",  # how much of the limits is used; reaching one is told
        "client",  # the client's account, files, windows
    }
    state_type = CodexAppServerState

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.event_turn = None
        emitted = value.get("emittedAtMs")
        if isinstance(emitted, int):
            self.ts = emitted
        method = value.get("method")
        params = object_of(value, "params")
        if not isinstance(method, str):
            line_class = self._read_answer(value, direction)
        elif "id" not in value:
            line_class = self._read_notification(method, params)
        elif method in _ASKED and direction != "in":
            line_class = self._read_question(str(value["id"]), method, params)
        else:
            line_class = self._read_request(method, params)
        return line_class if line_class is not None else self.unparsed("unknown-type", value)

    # -- whose line it is -----------------------------------------------------------------------------------------

    def _scope(self, params: Msg) -> None:
        self.event_turn = text_of(params, "turnId")
        thread_id = text_of(params, "threadId", "conversationId")
        if thread_id is None:
            return
        child = self.state.children.get(thread_id)
        self.set_session(thread_id if child is None else child.session)
        if child is not None:
            self.agent, self.parent = thread_id, child.call_id

    def _add_child(self, thread_id: str, session: str, call_id: str | None = None) -> None:
        children: dict[str, Child] = self.state.children
        known = children.pop(thread_id, None)
        while len(children) >= MANY_CHILDREN:
            del children[next(iter(children))]
        if known is not None:
            session, call_id = known.session, known.call_id or call_id
        children[thread_id] = Child(session, call_id)

    def _find_children(self, method: str, params: Msg) -> None:
        """Threads this line shows to be subagents': one that works for another's turn, or was spawned by a call."""
        turn, item, thread = (object_of(params, key) for key in ("turn", "item", "thread"))
        root_turn = text_of(turn, "rootTurnId")
        thread_id = text_of(params, "threadId")
        if method == "turn/started" and thread_id is not None and root_turn != turn.get("id"):
            root = next((one for one in self.state.turns if one.id == root_turn), None)
            if root is not None and root.session != thread_id:
                self._add_child(thread_id, root.session)
        parent, own_id = text_of(thread, "parentThreadId"), text_of(thread, "id")
        if parent is not None and own_id is not None:
            grandparent = self.state.children.get(parent)
            self._add_child(own_id, parent if grandparent is None else grandparent.session)
        spawned = strings(item.get("receiverThreadIds")) if snake(str(item.get("tool"))) == "spawn_agent" else []
        if item.get("type") == "subAgentActivity" and item.get("kind") == "started":
            spawned = strings([item.get("agentThreadId")])
        for child in spawned:
            self._add_child(child, self.session, text_of(item, "id"))

    # -- the agent's side -----------------------------------------------------------------------------------------

    def _read_notification(self, method: str, params: Msg) -> str | None:
        if method.startswith("codex/event"):  # older versions say everything in the core's words, too
            self._scope(params)
            self.event_turn = text_of(params, "id")
            return self.read_event(object_of(params, "msg"))
        if method == "thread/started":
            self._find_children(method, params)
            return self._thread_told(object_of(params, "thread"), {})
        if method == "turn/started":
            self._find_children(method, params)
        self._scope(params)
        match method:
            case "initialized":
                return skip("handshake")
            case "thread/status/changed":
                return self._status(object_of(params, "status"))
            case "thread/closed":
                return self._closed()
            case "configWarning":
                return self._config_warning(params)
            case "item/commandExecution/outputDelta":
                return self._printed(params)
            case "item/mcpToolCall/progress":
                return self._progress(params)
        event = core_event(method, params)
        if event is None:
            reason = skip_reason(method)
            return skip(reason) if reason is not None else None
        line_class = self.read_event(event)
        self._find_children(method, params)
        if method == "account/rateLimits/updated" and line_class == skip("no-usage"):
            return skip("rate-limits")
        return line_class

    def _status(self, status: Msg) -> str:
        if status.get("type") != "systemError":
            return skip("status")
        self.emit(Notice, level="warning", code="thread-status", text="systemError")
        return WITH_EVENTS

    def _closed(self) -> str:
        if self.agent is not None:
            return skip("housekeeping")
        self.emit(SessionEvent, state="ended")
        return WITH_EVENTS

    def _config_warning(self, params: Msg) -> str:
        text = text_of(params, "summary") or "configWarning"
        self.emit(Notice, level="warning", code="config", text=text, data=details(params, "details", "path") or None)
        return WITH_EVENTS

    def _printed(self, params: Msg) -> str:
        call = self.calls.get(text_of(params, "itemId") or "")
        delta = text_of(params, "delta")
        if call is not None and delta is not None:
            self.running.append(call, "stdout", delta.encode())
        return skip("partial")

    def _progress(self, params: Msg) -> str:
        call = self.calls.get(text_of(params, "itemId") or "")
        if call is None:
            return skip("duplicate-call")
        self.calls.update(call, progress={"text": text_of(params, "message") or "", "data": {}})
        return WITH_EVENTS

    def _thread_told(self, thread: Msg, settings: Msg) -> str:
        """By the answer to the client's request, and by a notification; the answer says more."""
        thread_id = text_of(thread, "id")
        if thread_id is None:
            return skip("answer")
        self._scope({"threadId": thread_id})
        sandbox = object_of(settings, "sandbox")
        told = {
            "cwd": text_of(settings, "cwd") or text_of(thread, "cwd"),
            "model": text_of(settings, "model") or text_of(thread, "model"),
            "mode": codex_mode(
                {
                    "approval_policy": settings.get("approvalPolicy"),
                    "sandbox_policy": snake(text_of(sandbox, "type") or "").replace("_", "-") or None,
                }
            ),
        }
        if self.thread.settings:
            return self.notices.settings(**told)
        self.state.cwd = told["cwd"] or self.state.cwd
        self.thread.settings = {key: value for key, value in told.items() if value is not None}
        state = "resumed" if thread.get("turns") else "started"
        version, title = text_of(thread, "cliVersion"), text_of(thread, "name")
        self.emit(SessionEvent, state=state, title=title, agent_version=version, **told)
        return WITH_EVENTS

    # -- requests and answers -------------------------------------------------------------------------------------

    def _read_question(self, request_id: str, method: str, params: Msg) -> str | None:
        self._scope(params)
        asked: dict[str, str] = self.state.asked
        while len(asked) >= self.context.limits.open_permissions:
            del asked[next(iter(asked))]
        asked[request_id] = request_id
        event = {"call_id": params.get("itemId"), **snake_keys(params), "type": _ASKED[method]}
        if method == "mcpServer/elicitation/request":
            event = {**event, "call_id": self._mcp_call(params), "request": snake_keys(params), "id": request_id}
        else:
            event = {**event, "parsed_cmd": params.get("commandActions"), "approval_id": request_id}
            event["available_decisions"] = params.get("availableDecisions")  # what they are called is the wire's
        return self.read_event(event)

    def _mcp_call(self, params: Msg) -> str | None:
        """The call an MCP server's tool is asked about: the wire gives its name alone, so there must be just one."""
        name = f"mcp__{params.get('serverName')}__{object_of(params, '_meta').get('tool_name')}"
        calls = [call for call in self.state.calls.open.values() if call.raw_name == name and call.agent == self.agent]
        return str(calls[0].id) if len(calls) == 1 else None

    def _read_request(self, method: str, params: Msg) -> str:
        if method in _CLIENT_NOTICES:
            self._scope(params)
            self.emit(Notice, level="info", code=_CLIENT_NOTICES[method], text=method)
            return WITH_EVENTS
        return skip("client" if method in _CALLED else "request")

    def _read_answer(self, value: Msg, direction: Direction | None) -> str | None:
        if "id" not in value or not ("result" in value or "error" in value):
            return None
        request_id = str(value["id"])
        result = object_of(value, "result")
        if direction == "in" or (direction is None and any(key in result for key in _ANSWER_KEYS)):
            permission_id = self.state.asked.pop(request_id, None)
            return self.approvals.answer(permission_id, value) if permission_id is not None else skip("answer")
        if error := text_of(object_of(value, "error"), "message"):
            self.emit(Notice, level="error", code="provider-error", text=error)
            return WITH_EVENTS
        if "userAgent" in result:
            return skip("handshake")
        return self._thread_told(object_of(result, "thread"), result)
