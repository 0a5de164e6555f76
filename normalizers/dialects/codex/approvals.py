"""What Codex asks its user: approvals of commands and patches, permissions, questions, and MCP servers' forms.

An approval is asked for by an event, and by `codex mcp-server` once more as a JSON-RPC request (`elicitation/create`),
which is answered; both are one permission request, known by the id of the call it is about. A client that only listens
to the agent does not see the answer: then the call's own course shows what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.state import CodexReader, Handlers, Msg, call_id_of, details, object_of, text_of
from tooltap.normalizers.tools import tool_input

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.codex.base import CodexParser

__all__ = ["CodexApprovals"]

_KINDS = {
    "approved": "allow_once",
    "approved_for_session": "allow_always",
    "approved_execpolicy_amendment": "allow_always",
    "allow": "allow_always",
    "denied": "reject_once",
    "abort": "reject_once",
    "deny": "reject_always",
    "accept": "allow_once",
    "acceptForSession": "allow_always",
    "acceptWithExecpolicyAmendment": "allow_always",
    "decline": "reject_once",
    "cancel": "reject_once",
}
"""Codex's decisions (`ReviewDecision`; from `accept` on, the app-server's words); `allow` and `deny` are those of a
network rule."""

_ACTIONS = {"accept": "allowed", "decline": "denied", "cancel": "cancelled"}
"""MCP's answers to an elicitation."""

_MCP_APPROVAL = "mcp_tool_call_approval_"
"""What Codex 0.120 puts before the call's id when it asks for a tool of an MCP server."""


class CodexApprovals(CodexReader):
    def __init__(self, parser: CodexParser) -> None:
        self._parser = parser

    def _exec_request(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.get(call_id) is None:
            self._parser.tools.exec_begin(msg)
        return self._ask(
            text_of(msg, "approval_id") or call_id,
            call_id,
            details(msg, "command", "cwd", "parsed_cmd"),
            title=text_of(msg, "reason"),
            options=_options(msg.get("available_decisions")),
        )

    def _patch_request(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if self._parser.calls.get(call_id) is None:
            self._parser.tools.patch_begin(msg)
        permission_id = text_of(msg, "approval_id") or call_id
        return self._ask(permission_id, call_id, details(msg, "changes", "grant_root"), title=text_of(msg, "reason"))

    def elicitation(self, params: Msg) -> tuple[str, str]:
        """The same request over JSON-RPC; gives the id of the permission it is about, and the line's class."""
        msg = {key.removeprefix("codex_"): value for key, value in params.items()}
        permission_id = text_of(msg, "approval_id", "call_id") or ""
        if self._parser.permissions.is_pending(permission_id):
            return permission_id, skip("duplicate-request")
        msg["reason"] = params.get("message")
        request = self._patch_request if msg.get("elicitation") == "patch-approval" else self._exec_request
        return permission_id, request(msg)

    def _ask(
        self,
        permission_id: str,
        call_id: str,
        value: Msg,
        *,
        title: str | None = None,
        options: list[dict[str, Any]] | None = None,
    ) -> str:
        call = self._parser.calls.get(call_id)
        self._parser.permissions.ask(
            permission_id,
            call_id=call_id,
            title=title,
            options=options,
            input=tool_input(call.name, value, call.raw_name) if call is not None else value,
        )
        return WITH_EVENTS

    def _mcp_request(self, msg: Msg) -> str:
        """A form of an MCP server, or Codex's own question whether one of its tools may be called."""
        permission_id = str(msg.get("id"))
        request = object_of(msg, "request") or msg
        meta = object_of(request, "_meta")
        call_id = text_of(msg, "call_id") or permission_id.removeprefix(_MCP_APPROVAL)
        is_approval = "codex_approval_kind" in meta
        self._parser.permissions.ask(
            permission_id,
            type="permission" if is_approval else "elicitation",
            call_id=call_id if self._parser.calls.is_known(call_id) else None,
            title=text_of(request, "message"),
            input=object_of(meta, "tool_params") or details(request, "requested_schema", "url") or None,
        )
        return WITH_EVENTS

    def _permissions_request(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        if not self._parser.calls.is_known(call_id):
            self._parser.tools.called(call_id, "request_permissions", details(msg, "reason", "permissions"), msg)
        permission_id = text_of(msg, "approval_id") or call_id
        return self._ask(permission_id, call_id, details(msg, "permissions", "cwd"), title=text_of(msg, "reason"))

    def _question(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        questions = msg.get("questions")
        if not self._parser.calls.is_known(call_id):
            self._parser.tools.called(call_id, "request_user_input", details(msg, "questions"), msg)
        self._parser.permissions.ask(
            text_of(msg, "approval_id") or call_id,
            type="question",
            call_id=call_id,
            questions=[one for one in questions if isinstance(one, dict)] if isinstance(questions, list) else None,
        )
        return WITH_EVENTS

    # -- answers --------------------------------------------------------------------------------------------------

    def answer(self, permission_id: str, response: Msg) -> str:
        """The client's JSON-RPC answer: to an elicitation, and in the app-server to what else it was asked."""
        result = object_of(response, "result")
        if answers := object_of(result, "answers"):
            self._parser.permissions.answer(permission_id, "answered", by="user", answers=answers)
            return WITH_EVENTS
        if granted := object_of(result, "permissions"):
            self._parser.permissions.answer(permission_id, "allowed" if any(granted.values()) else "denied", by="user")
            return WITH_EVENTS
        option = _word(result.get("decision"))
        if option is not None:
            kind = _KINDS.get(option, "")
            outcome = "allowed" if kind.startswith("allow") else "expired" if option == "timed_out" else "denied"
        else:  # Codex takes an answer it cannot read, and an error, for a refusal
            option = text_of(result, "action")
            outcome = _ACTIONS.get(option or "", "denied")
        self._parser.permissions.answer(permission_id, outcome, by="user", option_id=option)
        return WITH_EVENTS

    def settle(self, call_id: str, status: str, answers: Any = None) -> bool:
        """A call runs, or ends in this status: whatever was still being asked about it has been answered."""
        pending = self._parser.state.permissions.pending
        asked = [permission_id for permission_id, one in pending.items() if one.call_id == call_id]
        if status == "cancelled":  # nobody answered; the turn's end says so
            return False
        outcome = "answered" if answers is not None else "denied" if status == "denied" else "allowed"
        for permission_id in asked:
            self._parser.permissions.answer(permission_id, outcome, answers=answers, synthetic=True)
        return bool(asked)

    # -- what reads what -------------------------------------------------------------------------------------------

    EVENTS: ClassVar[Handlers] = {
        "apply_patch_approval_request": _patch_request,
        "elicitation_request": _mcp_request,
        "exec_approval_request": _exec_request,
        "request_permissions": _permissions_request,
        "request_user_input": _question,
    }


def _options(decisions: Any) -> list[dict[str, Any]] | None:
    if not isinstance(decisions, list):
        return None
    words = [word for word in map(_word, decisions) if word is not None]
    return [{"id": word, "name": word, **({"kind": _KINDS[word]} if word in _KINDS else {})} for word in words]


def _word(decision: Any) -> str | None:
    """`"approved"` or `{"approved_execpolicy_amendment": …}`; of a network rule, what it does."""
    if isinstance(decision, dict) and decision:
        word = str(next(iter(decision)))
        rule = object_of(object_of(decision, word), "network_policy_amendment")
        return text_of(rule, "action") or word
    return decision if isinstance(decision, str) else None
