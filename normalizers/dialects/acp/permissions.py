"""Requests of an ACP agent to its user: permissions for calls, questions, and forms (elicitations)."""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Lines
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.acp.calls import ToolCalls, response_in, use_of
from tooltap.normalizers.dialects.acp.content import questions
from tooltap.normalizers.dialects.acp.inputs import ToolUse
from tooltap.normalizers.dialects.acp.sessions import AcpSessions
from tooltap.normalizers.dialects.acp.state import PendingRequest
from tooltap.normalizers.wire.values import record, records, string

ELICITATIONS = ("elicitation/create", "session/elicitation")
PERMISSIONS = ("session/request_permission", *ELICITATIONS)
"""Methods with which an agent asks the user."""
_ACTIONS = {"accept": "answered", "decline": "denied", "cancel": "cancelled"}


def id_in(key: str) -> str:
    """The JSON-RPC id of a request."""
    return key.partition(":")[2]


class PermissionRequests:
    """Reads the agent's requests to the user, and the answers."""

    request = Lines("method")
    answer = Lines("method")

    def __init__(self, parser: Parser, sessions: AcpSessions, tool_calls: ToolCalls) -> None:
        self._parser = parser
        self._permissions = parser.permissions
        self._sessions = sessions
        self._tool_calls = tool_calls

    @request("session/request_permission")
    def _permission_asked(self, params: Line, key: str) -> None:
        """v2 has a subject where v1 has the call, and a title of its own."""
        subject = record(params.get("subject"))
        self._sessions.ensure_turn()
        self._parser.texts.flush()
        tool_call = record(params.get("toolCall") or subject.get("toolCall"))
        call_id = self._before_permission(tool_call) or string(subject.get("toolCallId"))
        command = subject and {name: subject[name] for name in ("command", "cwd") if type(subject.get(name)) is str}
        self._permissions.ask(
            id_in(key),
            call_id=call_id,
            type=self._type(call_id, "permission"),
            title=string(params.get("title") or tool_call.get("title")),
            input=command or None,
            options=[
                {"id": option["optionId"], "name": option.get("name"), "kind": option.get("kind")}
                for option in records(params.get("options"))
                if isinstance(option.get("optionId"), str)
            ],
        )

    @answer("session/request_permission")
    def _permission_answered(self, result: Line, asked: PendingRequest, key: str) -> None:
        answer, permission_id = record(result.get("outcome")), id_in(key)
        option_id = string(answer.get("optionId"))
        outcome = "allowed" if self._permissions.allows(permission_id, option_id) else "denied"
        if answer.get("outcome") == "cancelled" or option_id is None:
            outcome = "cancelled"
        self._permissions.answer(permission_id, outcome, by="user", option_id=option_id)

    @request(*ELICITATIONS)
    def _elicit(self, params: Line, key: str) -> None:
        self._parser.texts.flush()
        call_id = string(params.get("toolCallId"))
        self._permissions.ask(
            id_in(key),
            call_id=call_id,
            type=self._type(call_id, "elicitation"),
            title=string(params.get("message")),
            questions=questions(params) or None,
        )

    @answer(*ELICITATIONS)
    def _elicited(self, result: Line, asked: PendingRequest, key: str) -> None:
        content, outcome = result.get("content"), _ACTIONS.get(str(result.get("action")), "cancelled")
        answers = content if isinstance(content, dict) else None
        self._permissions.answer(id_in(key), outcome, by="user", answers=answers)

    def _before_permission(self, tool_call: Line) -> str | None:
        """Open the call that a permission is requested for, unless it is known; returns its id.

        If the input of the call is known, the request is not read: OpenCode shows a diff there in place of the text,
        codex-acp another title."""
        call_id = tool_call.get("toolCallId")
        if not isinstance(call_id, str):
            return None
        call = self._parser.calls.get(call_id)
        if call is not None:
            use = use_of(call)
            if not use.has_input:
                stated = {key: item for key, item in tool_call.items() if key != "status"}
                self._tool_calls.update_open(call, use, stated, response_in(stated))
        elif not self._parser.calls.is_done(call_id):
            response = response_in(tool_call)
            self._tool_calls.open(
                call_id, ToolUse(), tool_call, response, synthetic=False, status="awaiting-permission"
            )
        return call_id

    def _type(self, call_id: str | None, default: str) -> str:
        """The type of a request about this call."""
        is_question = call_id is not None and self._parser.calls.name_of(call_id) == "AskUserQuestion"
        return "question" if is_question else default
