"""Permissions, questions and elicitations of an ACP session, and codex-acp's automatic reviewer."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser
from tooltap.normalizers.dialects.acp.tools import ToolCalls
from tooltap.normalizers.wire.values import record, records, string

__all__ = ["Asking"]

_ACTIONS = {"accept": "answered", "decline": "denied", "cancel": "cancelled"}
_VERDICTS = {"approved": "allowed", "denied": "denied", "aborted": "cancelled", "timedOut": "expired"}
QUESTION_TOOL = "AskUserQuestion"


class Asking:
    def __init__(self, parser: Parser, tools: ToolCalls) -> None:
        self._parser = parser
        self._tools = tools

    # -- permissions --------------------------------------------------------------------------------------------

    def permission(self, permission_id: str, params: dict[str, Any]) -> str:
        """`session/request_permission`. v2 has a subject where v1 has the call, and a title of its own."""
        parser = self._parser
        parser.texts.flush()
        subject = record(params.get("subject"))
        tool_call = record(params.get("toolCall") or subject.get("toolCall"))
        call_id = self._tools.before_permission(tool_call) or string(subject.get("toolCallId"))
        command = {key: subject[key] for key in ("command", "cwd") if isinstance(subject.get(key), str)}
        is_question = call_id is not None and parser.calls.name_of(call_id) == QUESTION_TOOL
        parser.permissions.ask(
            permission_id,
            call_id=call_id,
            type="question" if is_question else "permission",
            title=string(params.get("title") or tool_call.get("title")),
            input=command or None,
            options=[
                {"id": option["optionId"], "name": option.get("name"), "kind": option.get("kind")}
                for option in records(params.get("options"))
                if isinstance(option.get("optionId"), str)
            ],
        )
        return WITH_EVENTS

    def permission_answer(self, permission_id: str, result: dict[str, Any]) -> str:
        outcome = record(result.get("outcome"))
        option_id = string(outcome.get("optionId"))
        if outcome.get("outcome") == "cancelled" or option_id is None:
            said = "cancelled"
        else:
            said = "allowed" if self._parser.permissions.allows(permission_id, option_id) else "denied"
        self._parser.permissions.answer(permission_id, said, by="user", option_id=option_id)
        return WITH_EVENTS

    def refused(self, permission_id: str, message: str | None) -> str:
        """The client answered with an error, or the agent took its question back."""
        self._parser.permissions.answer(permission_id, "cancelled", message=message)
        return WITH_EVENTS

    # -- elicitations -------------------------------------------------------------------------------------------

    def elicitation(self, permission_id: str, params: dict[str, Any]) -> str:
        parser = self._parser
        parser.texts.flush()
        call_id = string(params.get("toolCallId"))
        is_question = call_id is not None and parser.calls.name_of(call_id) == QUESTION_TOOL
        parser.permissions.ask(
            permission_id,
            call_id=call_id,
            type="question" if is_question else "elicitation",
            title=string(params.get("message")),
            questions=_questions(params) or None,
        )
        return WITH_EVENTS

    def elicitation_answer(self, permission_id: str, result: dict[str, Any]) -> str:
        content = result.get("content")
        self._parser.permissions.answer(
            permission_id,
            _ACTIONS.get(str(result.get("action")), "cancelled"),
            by="user",
            answers=content if isinstance(content, dict) else None,
        )
        return WITH_EVENTS

    # -- codex-acp ----------------------------------------------------------------------------------------------

    def review(self, update: dict[str, Any]) -> None:
        """codex-acp 2.6.0 lets a second model decide on risky calls; its review is a call of its own that names the
        other, and a denied one then fails."""
        told = record(update.get("rawOutput") or update.get("rawInput"))
        review = record(told.get("review"))
        permission_id, call_id = string(told.get("reviewId")), string(told.get("targetItemId"))
        if permission_id is None or call_id is None:
            return
        permissions = self._parser.permissions
        status = review.get("status")
        if status == "inProgress":
            permissions.ask(permission_id, call_id=call_id, title=update.get("title"))
        elif status in _VERDICTS:
            permissions.answer(
                permission_id,
                _VERDICTS[status],
                call_id=call_id,
                by="agent",
                message=string(review.get("rationale")),
            )


def _questions(params: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a form, as questions."""
    questions = []
    for field, value in record(record(params.get("requestedSchema")).get("properties")).items():
        spec = record(value)
        question: dict[str, Any] = {
            "id": field,
            "question": spec.get("description") or params.get("message"),
            "header": spec.get("title"),
            "options": _options(record(spec.get("items")) or spec),
            "multiSelect": spec.get("type") == "array" or None,
        }
        questions.append({key: value for key, value in question.items() if value})
    return questions


def _options(choices: dict[str, Any]) -> list[dict[str, Any]]:
    titled = records(choices.get("oneOf") or choices.get("anyOf"))
    if titled:
        keys = (("label", "const"), ("description", "description"))
        return [{ours: one[theirs] for ours, theirs in keys if theirs in one} for one in titled]
    values = choices.get("enum")
    return [{"label": value} for value in values] if isinstance(values, list) else []
