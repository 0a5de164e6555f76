"""What a client of Pi's RPC mode writes to it: answers to the dialogs of extensions, prompts, and aborts."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.answers import (
    CannotWriteError,
    Chosen,
    answer_text,
    for_agent,
    own_id,
    request_for_agent,
)
from tooltap.protocol.answers import ForAgent

CONFIRMS = "confirm"
"""Method of the dialog that asks for yes or no."""
YES, NO = "Yes", "No"


def word_answer(dialog_id: str, method: str, chosen: Chosen) -> ForAgent:
    """Word an answer to a dialog, which is one question. Raises `CannotWriteError`."""
    answer: dict[str, Any] = {"type": "extension_ui_response", "id": dialog_id}
    if chosen.outcome == "cancelled":
        return for_agent(chosen.id, {**answer, "cancelled": True})
    if chosen.outcome != "answered" or len(given := list((chosen.answers or {}).values())) != 1:
        raise CannotWriteError("Pi's dialogs are answered, or dismissed with the outcome cancelled")
    text = answer_text(given[0])
    return for_agent(chosen.id, {**answer, **({"confirmed": text == YES} if method == CONFIRMS else {"value": text})})


def word_prompt(text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    """Word a prompt, which steers the agent if it is working when it gets it."""
    return _command(id, "prompt", message=text, streamingBehavior="steer")


def word_abort(id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    return _command(id, "abort")


def _command(id: str, command: str, **members: Any) -> ForAgent:  # noqa: A002 -- the schema's word
    command_id = own_id(id)
    response = {"type": "response", "id": command_id}
    return request_for_agent(id, {"id": command_id, "type": command, **members}, response)
