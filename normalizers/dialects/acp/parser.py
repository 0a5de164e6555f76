"""ACP, the Agent Client Protocol: JSON-RPC between an editor and an agent, both directions or the agent's side alone.

Learned from Gemini CLI 0.61, OpenCode 1.18, claude-agent-acp 0.100 and codex-acp 2.6, and from the protocol's schemas
(v1, v2 and what is marked unstable in SDK 2.4). A turn runs from a `session/prompt` to its answer; v2 says `idle`
instead. Where only the agent's side is on the wire, content opens a turn and an answer with a stop reason ends it.

This page reads the messages and ties answers to requests; what they mean is in `acp_sessions` (set-up, changes, usage),
`acp_tools` (calls), `acp_permissions`, `acp_terminals` and `acp_plans`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.acp.content import read_prompt
from tooltap.normalizers.dialects.acp.permissions import Asking
from tooltap.normalizers.dialects.acp.plans import Plans
from tooltap.normalizers.dialects.acp.sessions import Sessions
from tooltap.normalizers.dialects.acp.state import ASKED, AcpState, Asked, keep_newest
from tooltap.normalizers.dialects.acp.terminals import Terminals
from tooltap.normalizers.dialects.acp.tools import ToolCalls
from tooltap.normalizers.dialects.acp.turns import Turns
from tooltap.normalizers.dialects.acp.updates import Updates
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Message, Notice, OutputRef, SessionEvent
from tooltap.protocol.tapped import Direction

__all__ = ["Acp"]

CLIENT = "in"
AGENT = "out"

_ADMINISTRATION = {
    "authenticate": "auth",
    "logout": "auth",
    "auth/login": "auth",
    "auth/logout": "auth",
    "auth/status": "auth",
    "auth/status_update": "auth",
    "_auth/status_update": "auth",
    "elicitation/complete": "request",
    "fs/read_text_file": "client-fs",
    "fs/write_text_file": "client-fs",
    "mcp/connect": "client-mcp",
    "mcp/disconnect": "client-mcp",
    "mcp/message": "client-mcp",
    "providers/disable": "administration",
    "providers/list": "administration",
    "providers/set": "administration",
    "session/archive": "administration",
    "session/delete": "administration",
    "session/list": "administration",
    "session/status": "administration",
    "session/unarchive": "administration",
    "terminal/cancel": "client-terminal",
    "terminal/kill": "client-terminal",
    "terminal/release": "client-terminal",
    "tool_call/cancel": "request",
}
"""Method -> the reason for which it and its answer give no event."""

_AGENT_METHODS = (
    "session/update",
    "session/request_permission",
    "elicitation/",
    "fs/",
    "terminal/",
    "_auth/",
    "auth/s",
)
"""How methods begin that an agent calls; all others are a client's."""

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
"""Key of an answer -> who answers, and the method it answers, where the request is not on the wire."""


class Acp(Parser):
    dialect: ClassVar[str] = "acp"
    protocol: ClassVar[str] = "acp"
    default_provider: ClassVar[str] = "acp"
    SKIPS: ClassVar[frozenset[str]] = frozenset(
        {
            "administration",
            "answer",
            "auth",
            "blank",
            "client-fs",
            "client-mcp",
            "client-terminal",
            "duplicate-result",
            "echo",
            "handshake",
            "late-update",
            "lost",
            "partial",
            "request",
            "unchanged",
        }
    )
    state_type: ClassVar[type[State]] = AcpState
    state: AcpState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.terminals = Terminals(self)
        self.plans = Plans(self)
        self.tools = ToolCalls(self, self.terminals, self.plans)
        self.sessions = Sessions(self)
        self.turns = Turns(self, self.sessions)
        self.asking = Asking(self, self.tools)
        self.updates = Updates(self, self.sessions, self.turns, self.tools, self.asking, self.terminals, self.plans)

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        method = value.get("method")
        if isinstance(method, str):
            is_agents = direction == AGENT if direction is not None else method.startswith(_AGENT_METHODS)
            return self._message(value, method, record(value.get("params")), AGENT if is_agents else CLIENT)
        if "id" in value and ("result" in value or "error" in value):
            return self._answer(value, direction)
        return self.unparsed("unknown-type", value)

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.tools.unfinished(call)

    # -- requests and notifications -----------------------------------------------------------------------------

    def _message(self, value: dict[str, Any], method: str, params: dict[str, Any], side: str) -> str:
        self.state.hears_client = self.state.hears_client or side == CLIENT
        self.sessions.enter(params.get("sessionId"))
        key = f"{side}:{_id_of(value)}" if "id" in value else None
        if method == "session/update":
            return self.updates.read(params) or self.unparsed("unknown-type", value)
        handler = self._REQUESTS.get(method)
        reason = _ADMINISTRATION.get(method)
        if key is not None:
            self._ask(key, method)
        if handler is not None:
            return handler(self, params, key or "")
        return skip(reason) if reason is not None else self.unparsed("unknown-type", value)

    def _ask(self, key: str, method: str) -> None:
        self.state.asked.pop(key, None)
        self.state.asked[key] = Asked(method, self.session)
        keep_newest(self.state.asked, ASKED)

    def _expect(self, key: str, **params: Any) -> None:
        """What the answer to this request will confirm."""
        if key in self.state.asked:
            self.state.asked[key].params = params

    def _initialize(self, params: dict[str, Any], key: str) -> str:
        return skip("handshake")

    def _set_up_session(self, params: dict[str, Any], key: str) -> str:
        self._expect(key, **self.sessions.set_up(params))
        return WITH_EVENTS

    def _load_session(self, params: dict[str, Any], key: str) -> str:
        if isinstance(params.get("sessionId"), str):
            self.sessions.info.loading = True
        return self._set_up_session(params, key)

    def _prompt(self, params: dict[str, Any], key: str) -> str:
        turn = self.turns.begin()
        if key in self.state.asked:
            self.state.asked[key].turn = turn
        text, attachments = read_prompt(self, params.get("prompt"))
        self.emit(Message, role="user", text=text, attachments=attachments or None)
        return WITH_EVENTS

    def _cancel(self, params: dict[str, Any], key: str) -> str:
        self.sessions.info.stopping = self.turn is not None
        self.emit(Notice, level="info", code="interrupt", text="The client cancelled the turn.")
        return WITH_EVENTS

    def _cancel_request(self, params: dict[str, Any], key: str) -> str:
        """One side no longer wants the answer to its request."""
        asked_id = _id_of({"id": params.get("requestId")})
        if self.permissions.is_pending(asked_id):
            return self.asking.refused(asked_id, None)
        asked = self.state.asked.get(f"{CLIENT}:{asked_id}")
        if asked is None or asked.method != "session/prompt" or asked.session is None:
            return skip("request")
        self.sessions.enter(asked.session)
        return self._cancel(params, key)

    def _change(self, params: dict[str, Any], key: str) -> str:
        """A client's wish to change the session's mode, model, title or an option; the answer makes it so."""
        self._expect(key, **self.sessions.wished(params))
        return skip("request")

    def _close_session(self, params: dict[str, Any], key: str) -> str:
        return skip("request")

    def _request_permission(self, params: dict[str, Any], key: str) -> str:
        self.turns.ensure()
        return self.asking.permission(_id_in(key), params)

    def _request_elicitation(self, params: dict[str, Any], key: str) -> str:
        return self.asking.elicitation(_id_in(key), params)

    def _terminal_request(self, params: dict[str, Any], key: str) -> str:
        self._expect(key, terminal=params.get("terminalId"))
        return skip("client-terminal")

    _REQUESTS: ClassVar[dict[str, Callable[[Acp, dict[str, Any], str], str]]] = {
        "$/cancel_request": _cancel_request,
        "elicitation/create": _request_elicitation,
        "initialize": _initialize,
        "session/cancel": _cancel,
        "session/close": _close_session,
        "session/elicitation": _request_elicitation,
        "session/fork": _set_up_session,
        "session/load": _load_session,
        "session/new": _set_up_session,
        "session/prompt": _prompt,
        "session/request_permission": _request_permission,
        "session/resume": _load_session,
        "session/set_config_option": _change,
        "session/set_mode": _change,
        "session/set_model": _change,
        "session/set_title": _change,
        "terminal/create": _terminal_request,
        "terminal/output": _terminal_request,
        "terminal/wait_for_exit": _terminal_request,
    }

    # -- answers ------------------------------------------------------------------------------------------------

    def _answer(self, value: dict[str, Any], direction: Direction | None) -> str:
        result = record(value.get("result"))
        key, asked = self._asked(_id_of(value), result, direction)
        error = value.get("error")
        if asked is None and isinstance(error, dict) and direction != CLIENT:
            asked = Asked("session/prompt" if self.turn is not None else "")
        if asked is None:
            return skip("answer")
        self.sessions.enter(asked.session)
        if isinstance(error, dict):
            return self._error(asked, key, error)
        handler = self._ANSWERS.get(asked.method)
        if handler is not None:
            return handler(self, asked, key, result)
        if asked.method in self._REQUESTS:
            return skip("answer")
        reason = _ADMINISTRATION.get(asked.method)
        return skip(reason) if reason is not None else self.unparsed("unknown-type", value)

    def _asked(self, answer_id: str, result: dict[str, Any], direction: Direction | None) -> tuple[str, Asked | None]:
        """The request an answer belongs to. Both sides number theirs from zero."""
        shape = next(((side, method) for name, side, method in _SHAPES if name in result), None)
        if direction is not None:
            askers = [AGENT if direction == CLIENT else CLIENT]
        elif shape is not None:
            askers = [AGENT if shape[0] == CLIENT else CLIENT]
        else:
            askers = [CLIENT, AGENT] if self.state.hears_client else [CLIENT]
        for asker in askers:
            key = f"{asker}:{answer_id}"
            if key in self.state.asked:
                return key, self.state.asked.pop(key)
        return f"{askers[0]}:{answer_id}", Asked(shape[1]) if shape is not None else None

    def _error(self, asked: Asked, key: str, error: dict[str, Any]) -> str:
        message = string(error.get("message"))
        if key.startswith(AGENT):  # the client refused what the agent asked for
            if asked.method in ("session/request_permission", "elicitation/create", "session/elicitation"):
                return self.asking.refused(_id_in(key), message)
            return skip(_ADMINISTRATION.get(asked.method, "client-terminal"))
        data = {name: error[name] for name in ("code", "data") if error.get(name) is not None}
        notice = {"level": "error", "code": "provider-error", "text": message or "error", "data": data or None}
        if asked.method == "session/prompt":
            self.turns.end("failed", turn=asked.turn, before=((Notice, notice),))
            return WITH_EVENTS
        self.turns.end_history()
        self.emit(Notice, **notice)
        return WITH_EVENTS

    def _initialized(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        return self.sessions.initialized(result)

    def _session_began(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        self.sessions.enter(result.get("sessionId"))
        return self.sessions.began("started", asked.params, result)

    def _session_loaded(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        self.sessions.enter(result.get("sessionId"))
        self.turns.end_history()
        return self.sessions.began("resumed", asked.params, result)

    def _prompt_answered(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        reason = result.get("stopReason")
        if reason is None and self.state.protocol_version >= 2:
            return skip("answer")  # v2: the prompt is accepted; the turn ends when the session is idle
        if asked.turn is None:
            self.turns.ensure()
        self.turns.end_with(result, reason, asked.turn)
        return WITH_EVENTS

    def _permission_answered(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        return self.asking.permission_answer(_id_in(key), result)

    def _elicitation_answered(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        return self.asking.elicitation_answer(_id_in(key), result)

    def _changed(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        return self.sessions.confirmed(asked.params, result)

    def _session_closed(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        self.emit(SessionEvent, state="ended")
        return WITH_EVENTS

    def _terminal_created(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        return self.terminals.created(result)

    def _terminal_printed(self, asked: Asked, key: str, result: dict[str, Any]) -> str:
        return self.terminals.printed(asked.params.get("terminal"), result)

    _ANSWERS: ClassVar[dict[str, Callable[[Acp, Asked, str, dict[str, Any]], str]]] = {
        "elicitation/create": _elicitation_answered,
        "initialize": _initialized,
        "session/close": _session_closed,
        "session/elicitation": _elicitation_answered,
        "session/fork": _session_began,
        "session/load": _session_loaded,
        "session/new": _session_began,
        "session/prompt": _prompt_answered,
        "session/request_permission": _permission_answered,
        "session/resume": _session_loaded,
        "session/set_config_option": _changed,
        "session/set_mode": _changed,
        "session/set_model": _changed,
        "session/set_title": _changed,
        "terminal/create": _terminal_created,
        "terminal/output": _terminal_printed,
        "terminal/wait_for_exit": _terminal_printed,
    }


def _id_of(message: dict[str, Any]) -> str:
    """A JSON-RPC id as a string."""
    request_id = message.get("id")
    return request_id if isinstance(request_id, str) else msgspec.json.encode(request_id).decode()


def _id_in(key: str) -> str:
    return key.partition(":")[2]
