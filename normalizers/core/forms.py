"""Forms of MCP (elicitations), which agents pass on to their users: the fields as questions, and the answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.answers import CannotWriteError, Chosen
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import record, records, string, whole

_ACTIONS = {"answered": "accept", "denied": "decline", "cancelled": "cancel"}
"""Outcome -> MCP's word for it."""
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


def questions(params: Line) -> list[dict[str, Any]]:
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


def field_types(params: Line) -> dict[str, str]:
    """Field of a form -> its type in the form's schema."""
    fields = record(record(params.get("requestedSchema")).get("properties"))
    return {name: kind for name, field in fields.items() if (kind := string(record(field).get("type"))) is not None}


def content_of(answers: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
    """The content of a form: answers may be strings, whatever the types of the fields are. Raises
    `CannotWriteError`."""
    content = {}
    for name, answer in answers.items():
        kind = types.get(name, "")
        if kind == "array":
            content[name] = answer if isinstance(answer, list) else [answer]
            continue
        value = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
        try:
            content[name] = _READERS[kind](value) if kind in _READERS and isinstance(value, str) else value
        except (KeyError, ValueError):
            raise CannotWriteError(f"the answer to {name!r} has the type {kind}, and {value!r} has not") from None
    return content


def _integer(text: str) -> int:
    if (value := whole(int(text))) is None:
        raise ValueError(text)
    return value


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(text)
    return value


_READERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "integer": _integer,
    "number": _number,
}


def form_answer(chosen: Chosen, types: dict[str, str]) -> dict[str, Any]:
    """MCP's answer to a form. Raises `CannotWriteError`."""
    answer: dict[str, Any] = {"action": _ACTIONS[chosen.outcome]}
    if chosen.outcome == "answered":
        answer["content"] = content_of(chosen.answers or {}, types)
    return answer
