"""Permissions, questions and elicitations of an ACP session, and codex-acp's automatic reviewer."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.acp_content import objects
from tooltap.normalizers.acp_tools import ToolCalls
from tooltap.normalizers.base import WITH_EVENTS, Parser

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
        subject = params.get("subject")
        subject = subject if isinstance(subject, dict) else {}
        tool_call = params.get("toolCall") or subject.get("toolCall")
        call_id = self._tools.before_permission(tool_call) if isinstance(tool_call, dict) else None
        if call_id is None and isinstance(subject.get("toolCallId"), str):
            call_id = subject["toolCallId"]
        title = params.get("title") or (tool_call.get("title") if isinstance(tool_call, dict) else None)
        command = {key: subject[key] for key in ("command", "cwd") if isinstance(subject.get(key), str)}
        is_question = call_id is not None and parser.calls.name_of(call_id) == QUESTION_TOOL
        parser.permissions.ask(
            permission_id,
            call_id=call_id,
            type="question" if is_question else "permission",
            title=title if isinstance(title, str) else None,
            input=command or None,
            options=[
                {"id": option["optionId"], "name": option.get("name"), "kind": option.get("kind")}
                for option in objects(params.get("options"))
                if isinstance(option.get("optionId"), str)
            ],
        )
        return WITH_EVENTS

    def permission_answer(self, permission_id: str, result: dict[str, Any]) -> str:
        outcome = result.get("outcome")
        outcome = outcome if isinstance(outcome, dict) else {}
        option_id = outcome.get("optionId")
        option_id = option_id if isinstance(option_id, str) else None
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
        call_id = params.get("toolCallId")
        call_id = call_id if isinstance(call_id, str) else None
        message = params.get("message")
        is_question = call_id is not None and parser.calls.name_of(call_id) == QUESTION_TOOL
        parser.permissions.ask(
            permission_id,
            call_id=call_id,
            type="question" if is_question else "elicitation",
            title=message if isinstance(message, str) else None,
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
        review = update.get("rawOutput") or update.get("rawInput")
        if not isinstance(review, dict) or not isinstance(review.get("review"), dict):
            return
        permission_id, call_id = review.get("reviewId"), review.get("targetItemId")
        if not isinstance(permission_id, str) or not isinstance(call_id, str):
            return
        permissions = self._parser.permissions
        status = review["review"].get("status")
        if status == "inProgress":
            permissions.ask(permission_id, call_id=call_id, title=update.get("title"))
        elif status in _VERDICTS:
            rationale = review["review"].get("rationale")
            permissions.answer(
                permission_id,
                _VERDICTS[status],
                call_id=call_id,
                by="agent",
                message=rationale if isinstance(rationale, str) else None,
            )


def _questions(params: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a form, as questions."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return []
    questions = []
    for field, spec in properties.items():
        if not isinstance(spec, dict):
            continue
        items = spec.get("items")
        choices = items if isinstance(items, dict) else spec
        question: dict[str, Any] = {
            "id": field,
            "question": spec.get("description") or params.get("message"),
            "header": spec.get("title"),
            "options": _options(choices),
            "multiSelect": spec.get("type") == "array" or None,
        }
        questions.append({key: value for key, value in question.items() if value})
    return questions


def _options(choices: dict[str, Any]) -> list[dict[str, Any]]:
    titled = objects(choices.get("oneOf") or choices.get("anyOf"))
    if titled:
        keys = (("label", "const"), ("description", "description"))
        return [{ours: one[theirs] for ours, theirs in keys if theirs in one} for one in titled]
    values = choices.get("enum")
    return [{"label": value} for value in values] if isinstance(values, list) else []
