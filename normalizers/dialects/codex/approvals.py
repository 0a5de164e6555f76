"""Codex's requests to its user: approvals of commands and patches, permissions, questions, and forms.

An approval is asked for by an event, and by `codex mcp-server` once more as a JSON-RPC request (`elicitation/create`),
which is answered; both are one permission request, known by the id of the call it is about. Where the client's side is
not on the wire, the course of the call shows the answer (`settle`).
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.codex.calls import ASKED, CodexCalls
from tooltap.normalizers.dialects.codex.items import call_id_of, file_changes, nonempty
from tooltap.normalizers.dialects.codex.threads import CodexState, Threads
from tooltap.normalizers.tools.registry import tool_input
from tooltap.normalizers.wire.values import first_string, record, records

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

_RESULTS = {"denied": "denied", "cancelled": "cancelled"}
"""Outcome of a request -> status of a call that only asks."""

_MCP_APPROVAL = "mcp_tool_call_approval_"
"""Prefix of the call's id where Codex 0.120 asks for a tool of an MCP server."""


class CodexApprovals:
    """Reads Codex's requests to the user, and the client's answers."""

    events = Lines()

    def __init__(self, parser: Parser, state: CodexState, threads: Threads, tool_calls: CodexCalls) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._permissions = parser.permissions
        self._state = state
        self._threads = threads
        self._tool_calls = tool_calls

    @events("exec_approval_request")
    def request_command(self, msg: Line) -> None:
        """Emit a request to approve a command, and its call."""
        if self._calls.get(call_id_of(msg)) is None:
            self._threads.begins = "event"
            self._tool_calls.begin_command(msg)
        self._ask(msg, "command", "cwd", "parsed_cmd", options=_options(msg.get("available_decisions")))

    @events("apply_patch_approval_request")
    def request_patch(self, msg: Line) -> None:
        """Emit a request to approve a patch, and its call."""
        if self._calls.get(call_id_of(msg)) is None:
            self._threads.begins = "event"
            self._tool_calls.begin_patch(msg)
        self._ask(msg, "changes", "grant_root")

    @events("request_permissions")
    def _permissions_request(self, msg: Line) -> None:
        self._show(msg, "request_permissions", "reason", "permissions")
        self._ask(msg, "permissions", "cwd")

    @events("request_user_input")
    def _ask_questions(self, msg: Line) -> None:
        self._show(msg, "request_user_input", "questions")
        permission_id = first_string(msg, "approval_id") or call_id_of(msg)
        questions = records(msg["questions"]) if isinstance(msg.get("questions"), list) else None
        self._permissions.ask(permission_id, type="question", call_id=call_id_of(msg), questions=questions)

    @events("elicitation_request")
    def _mcp_request(self, msg: Line) -> None:
        """A form of an MCP server, or Codex's own question whether one of its tools may be called."""
        permission_id = str(msg.get("id"))
        request = record(msg.get("request")) or msg
        meta = record(request.get("_meta"))
        call_id = first_string(msg, "call_id") or permission_id.removeprefix(_MCP_APPROVAL)
        kind = "permission" if "codex_approval_kind" in meta else "elicitation"
        known_id = call_id if self._calls.is_known(call_id) else None
        shown = record(meta.get("tool_params")) or nonempty(request, "requested_schema", "url") or None
        title = first_string(request, "message")
        self._permissions.ask(permission_id, type=kind, call_id=known_id, title=title, input=shown)

    def _show(self, msg: Line, raw_name: str, *keys: str) -> None:
        """Open the call in which the model asks, where no other line has."""
        if not self._calls.is_known(call_id_of(msg)):
            self._threads.begins = ASKED
            self._tool_calls.show(msg, raw_name, nonempty(msg, *keys))

    def _ask(self, msg: Line, *keys: str, options: list[dict[str, Any]] | None = None) -> None:
        """Emit a request about a call; `keys`: what the user is shown of it."""
        call_id, value = call_id_of(msg), nonempty(msg, *keys)
        if "changes" in value:
            value["changes"] = file_changes(value["changes"])
        call = self._calls.get(call_id)
        shown = tool_input(call.name, value, call.raw_name) if call is not None else value
        permission_id, title = first_string(msg, "approval_id") or call_id, first_string(msg, "reason")
        self._permissions.ask(permission_id, call_id=call_id, title=title, options=options, input=shown)

    def answer_request(self, asked: dict[str, str], response: Line) -> Skip:
        """Read the client's JSON-RPC answer. `asked`: JSON-RPC id -> permission; loses what is answered."""
        if (permission_id := asked.pop(str(response["id"]), None)) is None:
            return "answer"
        call_id = self._permissions.call_of(permission_id)
        result = record(response.get("result"))
        option = answers = None
        if "answers" in result:
            outcome, answers = "answered", record(result["answers"])
        elif granted := record(result.get("permissions")):
            outcome = "allowed" if any(granted.values()) else "denied"
        elif (option := _word(result.get("decision"))) is not None:
            kind = _KINDS.get(option, "")
            outcome = "allowed" if kind.startswith("allow") else "expired" if option == "timed_out" else "denied"
        else:  # Codex takes an answer it cannot read, and an error, for a refusal
            option = first_string(result, "action")
            outcome = _ACTIONS.get(option or "", "denied")
        self._permissions.answer(permission_id, outcome, by="user", option_id=option, answers=answers)
        if call_id is not None and (call := self._state.calls.open.get(call_id)) is not None and call.source == ASKED:
            value = {"answers": answers} if answers else nonempty(result, "permissions", "scope")
            self._tool_calls.answer(response, Answer(value or None, _RESULTS.get(outcome, "completed")), of=call)
        return None


def _options(decisions: Any) -> list[dict[str, Any]] | None:
    if not isinstance(decisions, list):
        return None
    words = [word for word in map(_word, decisions) if word is not None]
    return [{"id": word, "name": word, **({"kind": _KINDS[word]} if word in _KINDS else {})} for word in words]


def _word(decision: Any) -> str | None:
    """`"approved"` or `{"approved_execpolicy_amendment": …}`; of a network rule, what it does."""
    if isinstance(decision, dict) and decision:
        word = str(next(iter(decision)))
        rule = record(record(decision.get(word)).get("network_policy_amendment"))
        return first_string(rule, "action") or word
    return decision if isinstance(decision, str) else None
