"""`codex mcp-server`: Codex as an MCP server, whose client starts sessions with the tools `codex` and `codex-reply`.

Newline-delimited JSON-RPC 2.0. The agent's side alone says nearly everything, in `codex/event` notifications; the
client's side adds its answers to approvals. Older versions call the method `codex/event/<type>` and name the session
`conversationId`. Several sessions may run over one connection, each under its thread's id.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.dialects.codex.base import CODEX_SKIPS, CodexParser
from tooltap.normalizers.dialects.codex.state import CodexState, Msg, object_of, text_of
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.protocol.events import Message, Notice
from tooltap.protocol.tapped import Direction

__all__ = ["CodexMcp"]

MANY_REQUESTS = 16
"""Each may hold a prompt of `string_bytes`."""

_HANDSHAKE = ("initialize", "logging/", "notifications/", "ping", "prompts/", "resources/", "tools/list")
"""Methods of MCP itself, or what they begin with."""


class Request(msgspec.Struct, omit_defaults=True):
    """A `tools/call` of the client that has not been answered."""

    session: str | None = None
    prompt: TextBuffer | None = None
    """Until the agent repeats it as a `UserMessage`."""


class CodexMcpState(CodexState, kw_only=True):
    requests: dict[str, Request] = msgspec.field(default_factory=dict)
    elicitations: dict[str, str] = msgspec.field(default_factory=dict)
    """JSON-RPC id of an elicitation -> id of the permission it asks for."""


class CodexMcp(CodexParser):
    dialect = "codex-mcp"
    SKIPS = CODEX_SKIPS | {
        "handshake",  # MCP's own methods and their answers
        "prompt",  # a request; the agent repeats its prompt
        "answer",  # the answer to a request, which repeats the last message
    }
    state_type = CodexMcpState

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.event_turn = None
        self._request: Request | None = None
        method = value.get("method")
        params = object_of(value, "params")
        if not isinstance(method, str):
            line_class = self._read_answer(value, direction)
        elif method == "codex/event" or method.startswith("codex/event/"):
            line_class = self._read_notification(params)
        elif method == "elicitation/create":
            line_class = self._read_elicitation(str(value.get("id")), params)
        elif method == "tools/call":
            line_class = self._read_request(str(value.get("id")), object_of(params, "arguments"))
        elif method == "notifications/cancelled":
            line_class = self._read_cancellation(params)
        else:
            line_class = skip("handshake") if method.startswith(_HANDSHAKE) else None
        return line_class if line_class is not None else self.unparsed("unknown-type", value)

    # -- the agent's side -----------------------------------------------------------------------------------------

    def _read_notification(self, params: Msg) -> str | None:
        msg = object_of(params, "msg")
        meta = object_of(params, "_meta")
        request = self._request_of(meta.get("requestId")) if "requestId" in meta else None
        session = (
            text_of(meta, "threadId")
            or text_of(params, "conversationId")
            or text_of(msg, "thread_id", "session_id")
            or (request.session if request is not None else None)
        )
        if session is not None:
            self.set_session(session)
            if request is not None:
                request.session = session
        self._request = request
        self.event_turn = text_of(params, "id")  # empty for what belongs to no turn
        return self.read_event(msg)

    def _read_elicitation(self, request_id: str, params: Msg) -> str:
        if session := text_of(params, "threadId"):
            self.set_session(session)
        self.event_turn = text_of(params, "codex_event_id")
        if "codex_elicitation" in params:
            permission_id, line_class = self.approvals.elicitation(params)
        else:
            permission_id, line_class = request_id, WITH_EVENTS
            self.permissions.ask(permission_id, type="elicitation", title=text_of(params, "message"))
        elicitations: dict[str, str] = self.state.elicitations
        while len(elicitations) >= self.context.limits.open_permissions:
            del elicitations[next(iter(elicitations))]
        elicitations[request_id] = permission_id
        return line_class

    # -- the client's side ----------------------------------------------------------------------------------------

    def _read_request(self, request_id: str, arguments: Msg) -> str:
        request = self._request_of(request_id)
        request.session = text_of(arguments, "threadId", "conversationId", "sessionId")
        if prompt := text_of(arguments, "prompt"):
            request.prompt = TextBuffer()
            request.prompt.append(prompt, self, "text/plain")
        return skip("prompt")

    def _read_cancellation(self, params: Msg) -> str:
        request = self.state.requests.get(str(params.get("requestId")))
        if request is not None and request.session is not None:
            self.set_session(request.session)
        self.emit(Notice, level="info", code="interrupt", text=text_of(params, "reason") or "cancelled")
        return WITH_EVENTS

    # -- answers, of both sides -----------------------------------------------------------------------------------

    def _read_answer(self, value: Msg, direction: Direction | None) -> str | None:
        if "id" not in value or not ("result" in value or "error" in value):
            return None
        result = object_of(value, "result")
        if direction == "in" or (direction is None and ("action" in result or "decision" in result)):
            permission_id = self.state.elicitations.pop(str(value["id"]), None)
            return self.approvals.answer(permission_id, value) if permission_id is not None else skip("answer")
        info = object_of(result, "serverInfo")
        if info:
            self.state.agent_version = text_of(info, "version")
        is_call = "content" in result or "error" in result or "error" in value
        return self._read_tool_answer(str(value["id"]), value) if is_call else skip("handshake")

    def _read_tool_answer(self, request_id: str, value: Msg) -> str:
        """Ends its turn where no event did: an error is the last event that the agent forwards."""
        result = object_of(value, "result")
        request = self._request_of(request_id)
        del self.state.requests[request_id]
        session = text_of(object_of(result, "structuredContent"), "threadId") or request.session
        if session is not None:
            self.set_session(session)
        self._request = request
        error = text_of(object_of(value, "error"), "message") or text_of(result, "error")
        if error is None and result.get("isError"):
            error = blocks_text(result.get("content")) or "error"
        if self.turn is None and (error is None or self.thread.ended is not None):
            return skip("answer")
        if error is None:
            return self.end_codex_turn("completed", turn_id=self.turn)
        if self.turn is None:
            self.start_turn(request_id, synthetic=True)
        self.before_content()
        if self.thread.failed is None:
            self.emit(Notice, level="error", code="provider-error", text=error)
        return self.end_codex_turn("failed", turn_id=self.turn, reason=self.thread.failed)

    # -- prompts --------------------------------------------------------------------------------------------------

    def before_content(self, *, prompt: bool = False) -> None:
        super().before_content()
        request = self._request
        if request is None or request.prompt is None:
            return
        text, request.prompt = request.prompt, None
        if not prompt:  # the agent goes on without having repeated it
            ref = text.ref("text/plain")
            outputs = {"/text": ref} if ref is not None else None
            self.emit(Message, role="user", text=text.head, synthetic=True, outputs=outputs)

    def _request_of(self, request_id: Any) -> Request:
        requests: dict[str, Request] = self.state.requests
        request = requests.get(str(request_id))
        if request is None:
            while len(requests) >= MANY_REQUESTS:
                del requests[next(iter(requests))]
            request = requests[str(request_id)] = Request()
        return request
