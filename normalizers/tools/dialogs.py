"""Tools that talk to the user or about the session: plan mode, questions, titles, reasoning."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.tools.payload import (
    Family,
    Payload,
    add_flag,
    blocks_text,
    first_text,
    keep_input,
    keep_output,
    nonblank,
    objects,
)

__all__ = ["FAMILIES"]

# -- AskUserQuestion ----------------------------------------------------------------------------------------------


def _question_input(payload: Payload, raw_name: str) -> Payload:
    asked = payload.get("questions")
    if not isinstance(asked, list):  # Cline, Copilot: one question, its options as strings
        asked = [payload] if nonblank(payload.get("question")) else []
    questions = [_question(one) for one in objects(asked)]
    if questions:
        payload["questions"] = questions
    return payload


def _question(question: Payload) -> Payload:
    question = dict(question)
    options = question.pop("choices", None) if "options" not in question else question["options"]
    if isinstance(options, list):
        question["options"] = [{"label": one} if isinstance(one, str) else one for one in options]
    add_flag(question, "multiSelect", "multiple", "multi_select")
    return question


def _question_output(value: Any, raw_name: str) -> Payload:
    payload = keep_output(value, raw_name)
    answers = payload.get("answers")
    if isinstance(answers, dict):
        payload["answers"] = {question: _answer(answer) for question, answer in answers.items()}
    return payload


def _answer(answer: Any) -> Any:
    """Codex answers `{question id: {answers: ["A", "B"]}}`; several choices are joined as Claude joins them."""
    given = answer.get("answers") if isinstance(answer, dict) else answer
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return ", ".join(given)
    return answer


# -- Reasoning ----------------------------------------------------------------------------------------------------


def _reasoning_output(value: Any, raw_name: str) -> Payload:
    if isinstance(value, str):
        return {"content": value}
    payload = keep_output(value, raw_name)
    content = first_text(payload, ("content", "text"))
    if content is not None:
        payload["content"] = content
    return payload


# -- change_title -------------------------------------------------------------------------------------------------

_NEW_TITLE = re.compile(r'title (?:changed )?to: *(?:"(.*)"|(.*\S))', re.IGNORECASE)
_QUOTED = re.compile(r'"([^"]+)"')


def _title_output(value: Any, raw_name: str) -> Payload:
    payload = keep_output(value, raw_name) if isinstance(value, dict) else {}
    said = blocks_text(payload.get("content")) if isinstance(value, dict) else blocks_text(value)
    if said is None:
        said = first_text(payload, ("message",))
    if said is None:
        return keep_output(value, raw_name)
    title = _NEW_TITLE.search(said) or _QUOTED.search(said)
    if title:
        payload["title"] = next(group for group in title.groups() if group is not None)
    else:
        payload["message"] = said
    return payload


_KEPT = Family(keep_input, keep_output)

FAMILIES = {
    "AskUserQuestion": Family(_question_input, _question_output, json_result=True),
    "Reasoning": Family(keep_input, _reasoning_output, string_key="title"),
    "change_title": Family(keep_input, _title_output, string_key="title"),
    "EnterPlanMode": _KEPT,
    "ExitPlanMode": Family(keep_input, keep_output, string_key="plan"),
    "AcpHistoryImport": _KEPT,
    "WorkspaceIndexingPermission": _KEPT,
}
