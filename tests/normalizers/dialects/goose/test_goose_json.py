"""The `goose-json` dialect: what messages hold beside texts and calls that succeed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Message, Notice, PermissionRequest, Reasoning, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

SHELL = recording("goose-json", "shell", "goose-1.51-written")
COMPLETE = {"type": "complete", "total_tokens": 3}


def message(*parts: dict[str, Any], role: str = "assistant") -> dict[str, Any]:
    return {"type": "message", "message": {"id": "m", "role": role, "created": 1795692000, "content": list(parts)}}


def call(**result: Any) -> dict[str, Any]:
    return message({"type": "toolRequest", "id": "c1", "toolCall": result})


CALL = call(status="success", value={"name": "developer__shell", "arguments": {"command": "ls"}})


def test_pieces_of_a_text_are_one_message() -> None:
    found = normalize("auto", SHELL)

    assert {one.dialect for one in found} == {"goose-json"}
    assert [one.text for one in of(Message, found)] == ["Counting them.", "It has 12 lines."]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]
    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(1234, 56)]


@pytest.mark.parametrize(
    ("result", "status", "error"),
    [
        ({"status": "error", "error": "no such tool"}, "failed", "no such tool"),
        ({"status": "success", "value": [{"type": "text", "text": "a"}]}, "completed", None),
        (
            {"status": "success", "value": {"isError": True, "content": [{"type": "text", "text": "boom"}]}},
            "failed",
            "boom",
        ),
    ],
)
def test_result_states_how_a_call_ended(result: dict[str, Any], status: str, error: str | None) -> None:
    answer = message({"type": "toolResponse", "id": "c1", "toolResult": result}, role="user")
    [found] = of(ToolResult, read("goose-json", CALL, answer, COMPLETE))

    assert (found.status, found.output.get("errorMessage")) == (status, error)


def test_confirmation_is_a_permission() -> None:
    data = {"actionType": "toolConfirmation", "id": "c1", "toolName": "developer__shell", "prompt": "Run it?"}
    found = read("goose-json", CALL, message({"type": "actionRequired", "data": data}))

    assert [(one.call_id, one.title) for one in of(PermissionRequest, found)] == [("c1", "Run it?")]


def test_what_is_neither_text_nor_call_is_kept() -> None:
    parts = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redactedThinking", "data": "x"},
        {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compacting"},
        {"type": "strange"},
    ]
    found = read(
        "goose-json", message(*parts), call(status="error", error="not JSON"), {"type": "error", "error": "529"}
    )

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [one.code for one in of(Notice, found)] == ["notification", "invalid-call", "provider-error"]
    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]
    assert of(Turn, found)[-1].state == "failed"


@pytest.mark.parametrize(
    "other", [{"type": "message", "message": {"role": "user", "content": []}}, {"type": "complete", "n": 1}]
)
def test_other_lines_are_not_taken_for_its_own(other: dict[str, Any]) -> None:
    assert not builtin()["goose-json"].recognises(other)
