"""Permissions, questions and elicitations of an ACP session."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.lines import Line, Lines
from tooltap.normalizers.dialects.acp.calls import ToolCalls
from tooltap.normalizers.dialects.acp.emitter import AcpEmitter
from tooltap.normalizers.dialects.acp.state import Asked
from tooltap.normalizers.wire.values import record, records, string

__all__ = ["Asking", "id_in"]

_ACTIONS = {"accept": "answered", "decline": "denied", "cancel": "cancelled"}


def id_in(key: str) -> str:
    """The JSON-RPC id of a request."""
    return key.partition(":")[2]


class Asking:
    request = Lines("method")
    answer = Lines("method")

    def __init__(self, emitter: AcpEmitter, calls: ToolCalls) -> None:
        self._emitter = emitter
        self._calls = calls

    @request("session/request_permission")
    def _ask(self, params: Line, key: str) -> None:
        """v2 has a subject where v1 has the call, and a title of its own."""
        emitter, subject = self._emitter, record(params.get("subject"))
        emitter.ensure_turn()
        emitter.texts.flush()
        tool_call = record(params.get("toolCall") or subject.get("toolCall"))
        call_id = self._calls.before_permission(tool_call) or string(subject.get("toolCallId"))
        command = {key: subject[key] for key in ("command", "cwd") if isinstance(subject.get(key), str)}
        emitter.permissions.ask(
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
    def _answered(self, result: Line, asked: Asked, key: str) -> None:
        permissions, answer, permission_id = self._emitter.permissions, record(result.get("outcome")), id_in(key)
        option_id = string(answer.get("optionId"))
        if answer.get("outcome") == "cancelled" or option_id is None:
            outcome = "cancelled"
        else:
            outcome = "allowed" if permissions.allows(permission_id, option_id) else "denied"
        permissions.answer(permission_id, outcome, by="user", option_id=option_id)

    @request("elicitation/create", "session/elicitation")
    def _elicit(self, params: Line, key: str) -> None:
        self._emitter.texts.flush()
        call_id = string(params.get("toolCallId"))
        self._emitter.permissions.ask(
            id_in(key),
            call_id=call_id,
            type=self._type(call_id, "elicitation"),
            title=string(params.get("message")),
            questions=_questions(params) or None,
        )

    @answer("elicitation/create", "session/elicitation")
    def _elicited(self, result: Line, asked: Asked, key: str) -> None:
        content, outcome = result.get("content"), _ACTIONS.get(str(result.get("action")), "cancelled")
        answers = content if isinstance(content, dict) else None
        self._emitter.permissions.answer(id_in(key), outcome, by="user", answers=answers)

    def _type(self, call_id: str | None, default: str) -> str:
        """The type of a request about this call."""
        is_question = call_id is not None and self._emitter.calls.name_of(call_id) == "AskUserQuestion"
        return "question" if is_question else default


def _questions(params: Line) -> list[dict[str, Any]]:
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


def _options(choices: Line) -> list[dict[str, Any]]:
    if titled := records(choices.get("oneOf") or choices.get("anyOf")):
        keys = (("label", "const"), ("description", "description"))
        return [{ours: one[theirs] for ours, theirs in keys if theirs in one} for one in titled]
    values = choices.get("enum")
    return [{"label": value} for value in values] if isinstance(values, list) else []
