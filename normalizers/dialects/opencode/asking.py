"""Permissions and questions on OpenCode's bus: asked in events, answered in requests, which events confirm."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.opencode.state import BusState, Msg, keep_newest, object_of, text_of
from tooltap.normalizers.dialects.opencode.tools import answers_by_question, mcp_name
from tooltap.normalizers.tools.payload import objects

__all__ = ["Asking"]

ASKED = 64
"""Questions whose words are remembered."""
SHORT = 1_000

_OPTIONS = [
    {"id": "once", "name": "Allow once", "kind": "allow_once"},
    {"id": "always", "name": "Allow always", "kind": "allow_always"},
    {"id": "reject", "name": "Reject", "kind": "reject_once"},
]
"""What every request may be answered with; the wire does not repeat it."""


class Asking:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: BusState = parser.state

    def permission(self, properties: Msg) -> str:
        """`permission.asked`, and `permission.updated` before 1.1: the properties are the request."""
        parser = self._parser
        permission_id = text_of(properties, "id")
        if permission_id is None:
            return parser.unparsed("unknown-type", properties)
        if parser.permissions.is_pending(permission_id) or _answered(permission_id) in self._state.told:
            return skip("repeated")
        tool = object_of(properties, "tool") or object_of(properties, "source") or properties
        call_id = text_of(tool, "callID")
        wanted = text_of(properties, "permission", "type", "action")
        metadata = object_of(properties, "metadata")
        parser.ensure_turn()
        if call_id is not None and wanted is not None and not parser.calls.is_known(call_id):
            servers = (*parser.context.mcp_servers, *self._state.servers)
            name = mcp_name(wanted, servers)
            parser.calls.open(call_id, wanted, metadata, raw=properties, name=name, status="pending")
        parser.permissions.ask(
            permission_id,
            call_id=call_id,
            options=_OPTIONS,
            title=text_of(properties, "title"),
            name=None if call_id is not None else wanted,
            input={key: value for key, value in properties.items() if key in _TELLING and value not in (None, {}, [])},
        )
        return WITH_EVENTS

    def permission_answered(self, permission_id: str | None, said: Msg) -> str:
        """`permission.replied` (1.1: `requestID`, `reply`; before: `permissionID`, `response`), or the request to."""
        reply = text_of(said, "reply", "response")
        if permission_id is None or reply is None:
            return skip("request")
        outcome = "denied" if reply == "reject" else "allowed"
        return self._answer(permission_id, outcome, option_id=reply, message=text_of(said, "message"))

    def question(self, properties: Msg) -> str:
        parser = self._parser
        question_id, questions = text_of(properties, "id"), objects(properties.get("questions"))
        if question_id is None or not questions:
            return parser.unparsed("unknown-type", properties)
        if parser.permissions.is_pending(question_id) or _answered(question_id) in self._state.told:
            return skip("repeated")
        parser.ensure_turn()
        self._state.questions[question_id] = [str(one.get("question"))[:SHORT] for one in questions]
        keep_newest(self._state.questions, ASKED)
        call_id = text_of(object_of(properties, "tool"), "callID")
        parser.permissions.ask(question_id, type="question", call_id=call_id, questions=questions)
        return WITH_EVENTS

    def question_answered(self, question_id: str | None, said: Msg) -> str:
        if question_id is None:
            return skip("request")
        asked = self._state.questions.get(question_id, [])
        return self._answer(question_id, "answered", answers=answers_by_question(asked, said.get("answers")))

    def question_dismissed(self, question_id: str | None) -> str:
        return skip("request") if question_id is None else self._answer(question_id, "cancelled")

    def _answer(self, permission_id: str, outcome: str, **fields: Any) -> str:
        """The request that answers and the event that confirms it are one answer."""
        if self._state.is_told(_answered(permission_id)):
            return skip("repeated")
        self._state.questions.pop(permission_id, None)
        call_id = self._parser.permissions.call_of(permission_id)
        call = self._parser.calls.get(call_id) if call_id is not None else None
        if call is not None:  # requests do not say whose permission it was
            self._parser.session, self._parser.agent, self._parser.parent = call.session, call.agent, call.parent
        self._parser.permissions.answer(permission_id, outcome, by="user", **fields)
        return WITH_EVENTS


_TELLING = ("action", "always", "metadata", "pattern", "patterns", "permission", "resources", "type")
"""What a request says of what it is about."""


def _answered(permission_id: str) -> str:
    return f"answer {permission_id}"
