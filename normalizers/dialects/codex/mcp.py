"""The `codex-mcp` dialect: `codex mcp-server`, whose client starts sessions with the tools `codex` and `codex-reply`.

Newline-delimited JSON-RPC 2.0. The agent's side alone has nearly everything, in `codex/event` notifications; the
client's side adds its answers to approvals. Older versions call the method `codex/event/<type>` and name the session
`conversationId`. Several sessions may run over one connection, each under its thread's id.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.state import TextBuffer, make_room
from tooltap.normalizers.dialects.codex.parser import CodexParser
from tooltap.normalizers.dialects.codex.threads import Asked, CodexState
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import first_string, record
from tooltap.protocol.events import Message

MANY_REQUESTS = 16
"""Maximum number of pending requests; each may hold a prompt of `string_bytes`."""

_HANDSHAKE = ("initialize", "logging/", "notifications/", "ping", "prompts/", "resources/", "tools/list")
"""Methods of MCP itself, or their prefixes."""


class ToolRequest(msgspec.Struct, omit_defaults=True):
    """An unanswered `tools/call` of the client."""

    session: str | None = None
    prompt: TextBuffer | None = None
    """The request's prompt, held until the agent repeats it as a `UserMessage`."""


class CodexMcpState(CodexState, kw_only=True):
    requests: dict[str, ToolRequest] = msgspec.field(default_factory=dict)
    elicitations: dict[str, Asked] = msgspec.field(default_factory=dict)
    """JSON-RPC id of an elicitation -> what it asks for."""


class CodexMcp(CodexParser):
    dialect = "codex-mcp"
    STATES_END = True
    SKIPS = CodexParser.SKIPS | {
        "handshake",  # MCP's own methods and their answers
        "prompt",  # a request; the agent repeats its prompt
        "answer",  # the answer to a request, which repeats the last message
    }
    line = Lines("method")
    state_type = CodexMcpState
    state: CodexMcpState
    _request: ToolRequest | None = None
    """The request that the line belongs to."""
    OF_LINE = frozenset({"_request"})

    def enter(self, value: Line) -> None:
        super().enter(value)
        self._request = None

    def read(self, value: Line) -> Skip:
        self.enter(value)
        method = value.get("method")
        if not isinstance(method, str):
            return self._answer(value)
        if method == "codex/event" or method.startswith("codex/event/"):
            return self._event(value)
        if method.startswith(_HANDSHAKE) and not self.line.knows(method):
            return "handshake"
        return self.line.read(self, value)

    # -- the agent's side -----------------------------------------------------------------------------------------

    def _event(self, value: Line) -> Skip:
        params = record(value.get("params"))
        msg, meta = params.get("msg"), params.get("_meta")
        if type(msg) is not dict:
            msg = {}
        request = session = None
        if type(meta) is dict:
            if "requestId" in meta:
                request = self._request_of(meta["requestId"])
            session = first_string(meta, "threadId")
        session = session or first_string(params, "conversationId") or first_string(msg, "thread_id", "session_id")
        if session is None and request is not None:
            session = request.session
        if session is not None:
            self.set_session(session)
            if request is not None:
                request.session = session
        self._request = request
        self.threads.event_turn = first_string(params, "id")  # empty for what belongs to no turn
        return self.read_event(msg, value)

    @line("elicitation/create")
    def _elicitation(self, value: Line) -> Skip:
        request_id, params = str(value.get("id")), record(value.get("params"))
        if session := first_string(params, "threadId"):
            self.set_session(session)
        self.threads.event_turn = first_string(params, "codex_event_id")
        msg = {key.removeprefix("codex_"): stated for key, stated in params.items()}
        skip = None
        if "codex_elicitation" not in params:
            self.permissions.ask(request_id, type="elicitation", title=first_string(params, "message"))
        elif self.permissions.is_pending(self.approvals.id_of(msg)):
            skip = "duplicate-request"
        else:
            request = (
                self.approvals.request_patch
                if msg.get("elicitation") == "patch-approval"
                else self.approvals.request_command
            )
            request({**msg, "reason": params.get("message")})
        make_room(self.state.elicitations, self.context.limits.open_permissions)
        is_own = "codex_elicitation" in params
        asked = Asked(self.approvals.id_of(msg), "decision") if is_own else Asked(request_id, "action")
        self.state.elicitations[request_id] = asked
        return skip

    # -- the client's side, and answers ---------------------------------------------------------------------------

    @line("tools/call")
    def _tool_call(self, value: Line) -> Skip:
        arguments = record(record(value.get("params")).get("arguments"))
        request = self._request_of(value.get("id"))
        request.session = first_string(arguments, "threadId", "conversationId", "sessionId")
        if prompt := first_string(arguments, "prompt"):
            request.prompt = TextBuffer()
            request.prompt.append(prompt, self, "text/plain")
        return "prompt"

    @line("notifications/cancelled")
    def _cancelled(self, value: Line) -> None:
        params = record(value.get("params"))
        request = self.state.requests.get(str(params.get("requestId")))
        if request is not None and request.session is not None:
            self.set_session(request.session)
        self.notice("interrupt", first_string(params, "reason") or "cancelled")

    def _answer(self, value: Line) -> Skip:
        # A line of a log on the agent's output may have an `id` and a `result`, too.
        if value.get("jsonrpc") != "2.0" or "id" not in value or not ("result" in value or "error" in value):
            return self.unparsed("unknown-type", value)
        result = record(value.get("result"))
        if self.direction == "in" or (self.direction is None and ("action" in result or "decision" in result)):
            return self.approvals.answer_request(self.state.elicitations, value)
        if info := record(result.get("serverInfo")):
            self.state.agent_version = first_string(info, "version")
        is_call = "content" in result or "error" in result or "error" in value
        return self._tool_answer(str(value["id"]), value) if is_call else "handshake"

    def _tool_answer(self, request_id: str, value: Line) -> Skip:
        """End the turn where no event did: an error is the last event that the agent forwards."""
        result = record(value.get("result"))
        request = self._request_of(request_id)
        del self.state.requests[request_id]
        session = first_string(record(result.get("structuredContent")), "threadId") or request.session
        if session is not None:
            self.set_session(session)
        self._request = request
        error = first_string(record(value.get("error")), "message") or first_string(result, "error")
        if error is None and result.get("isError"):
            error = blocks_text(result.get("content")) or "error"
        if self.turn is None and (error is None or self.thread.ended is not None):
            return "answer"
        if error is None:
            return self.end_codex_turn("completed", turn_id=self.turn)
        if self.turn is None:
            self.start_turn(request_id, synthetic=True)
        self.before_content()
        if self.thread.failed is None:
            self.notice("provider-error", error, "error")
        return self.end_codex_turn("failed", turn_id=self.turn, reason=self.thread.failed)

    def before_content(self, *, prompt: bool = False) -> None:
        """Emit the request's prompt, where the agent continues without having repeated it."""
        super().before_content()
        request = self._request
        if request is None or request.prompt is None:
            return
        text, request.prompt = request.prompt, None
        if not prompt:
            outputs = text.outputs("/text", "text/plain")
            self.emit(Message, role="user", text=text.head, synthetic=True, outputs=outputs)

    def _request_of(self, request_id: Any) -> ToolRequest:
        requests = self.state.requests
        if (request := requests.get(str(request_id))) is None:
            make_room(requests, MANY_REQUESTS)
            request = requests[str(request_id)] = ToolRequest()
        return request
