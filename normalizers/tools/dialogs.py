"""Tools for the dialog with the user and for the session: plan mode, questions, titles, reasoning."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.tools.payload import (
    Payload,
    add_flag,
    blocks_text,
    first_text,
    keep_output,
    nonblank,
    objects,
)

# -- AskUserQuestion ----------------------------------------------------------------------------------------------


def question_input(payload: Payload, raw_name: str) -> Payload:
    asked = payload.get("questions")
    if not isinstance(asked, list):  # Cline, Copilot: one question with options as strings
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


def question_output(value: Any, raw_name: str) -> Payload:
    payload = keep_output(value, raw_name)
    answers = payload.get("answers")
    if isinstance(answers, dict):
        payload["answers"] = {question: _answer(answer) for question, answer in answers.items()}
    return payload


def _answer(answer: Any) -> Any:
    """Convert Codex's `{question id: {answers: ["A", "B"]}}`. Several choices are joined as in Claude's format."""
    choices = answer.get("answers") if isinstance(answer, dict) else answer
    if isinstance(choices, list) and all(isinstance(one, str) for one in choices):
        return ", ".join(choices)
    return answer


# -- Reasoning ----------------------------------------------------------------------------------------------------


def reasoning_output(value: Any, raw_name: str) -> Payload:
    if isinstance(value, str):
        return {"content": value}
    payload = keep_output(value, raw_name)
    content = first_text(payload, ("content", "text"))
    if content is not None:
        payload["content"] = content
    return payload


# -- change_title -------------------------------------------------------------------------------------------------

_NEW_TITLE = re.compile(r'title (?:changed )?to: *+(?:"(.*)"|(.*\S))', re.IGNORECASE)
_QUOTED = re.compile(r'"([^"]+)"')


def title_output(value: Any, raw_name: str) -> Payload:
    payload = keep_output(value, raw_name) if isinstance(value, dict) else {}
    text = blocks_text(payload.get("content")) if isinstance(value, dict) else blocks_text(value)
    if text is None:
        text = first_text(payload, ("message",))
    if text is None:
        return keep_output(value, raw_name)
    title = _NEW_TITLE.search(text) or _QUOTED.search(text)
    if title:
        payload["title"] = next(group for group in title.groups() if group is not None)
    else:
        payload["message"] = text
    return payload
