"""The `ai-sdk-ui` dialect: what no recording shows of the chunks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import lines_of, of, read, recording, statistics
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import (
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolResult,
    Turn,
    Unparsed,
)
from tooltap.testing import Line, normalize

SHELL = recording("ai-sdk-ui", "shell", "pydantic-ai-2.68.0")
START = {"type": "start", "messageId": "m1"}
CALL = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Ulm"}}


def test_message_is_a_turn() -> None:
    found = normalize("auto", SHELL)

    assert {one.dialect for one in found} == {"ai-sdk-ui"}
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]
    assert [one.text for one in of(Message, found)] == ["Running it.", "src has app.py and util.py."]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]


def test_frames_of_server_sent_events_are_taken_off() -> None:
    data = [line.data for line in SHELL if isinstance(line.data, bytes)]
    framed = [Line(frame) for line in data for frame in (b"data: " + line, b"")]
    events = normalize("auto", [*framed, Line(b"data: [DONE]")])

    assert {one.dialect for one in events} == {"ai-sdk-ui"}
    assert [type(one) for one in events] == [type(one) for one in normalize("auto", SHELL)]


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ({"type": "finish"}, "completed"),
        ({"type": "finish", "finishReason": "error"}, "failed"),
        ({"type": "abort", "reason": "the user left"}, "cancelled"),
    ],
)
def test_message_states_its_end(end: dict[str, Any], state: str) -> None:
    assert [(one.turn, one.state) for one in of(Turn, read("ai-sdk-ui", START, end))] == [
        ("m1", "started"),
        ("m1", state),
    ]


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ({"type": "tool-output-available", "output": {"sun": 1}}, "completed", None),
        ({"type": "tool-output-error", "errorText": "no such city"}, "failed", "no such city"),
        ({"type": "tool-output-denied"}, "denied", None),
        (
            {"type": "tool-input-error", "toolName": "weather", "input": 1, "errorText": "not an object"},
            "failed",
            "not an object",
        ),
    ],
)
def test_output_says_how_a_tool_ended(end: dict[str, Any], status: str, error: str | None) -> None:
    first = {"type": "tool-output-available", "toolCallId": "c1", "output": "so far", "preliminary": True}
    [result] = of(ToolResult, read("ai-sdk-ui", START, CALL, first, {**end, "toolCallId": "c1"}))

    assert (result.status, result.output.get("errorMessage")) == (status, error)


def test_approval_is_a_permission() -> None:
    asked = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
    given = {"type": "tool-approval-response", "approvalId": "a1", "approved": False, "reason": "not now"}
    found = read("ai-sdk-ui", START, CALL, asked, given, {"type": "tool-output-denied", "toolCallId": "c1"})

    assert [(one.permission_id, one.call_id) for one in of(PermissionRequest, found)] == [("a1", "c1")]
    assert [(one.outcome, one.message) for one in of(PermissionResponse, found)] == [("denied", "not now")]


def test_what_is_neither_text_nor_call_is_a_notice() -> None:
    lines = [
        {"type": "reasoning-delta", "id": "r1", "delta": "Hm."},
        {"type": "source-url", "sourceId": "1", "url": "https://a.example", "title": "A"},
        {"type": "data-weather", "data": {"sun": 1}},
        {"type": "error", "errorText": "overloaded"},
        {"type": "strange"},
    ]
    found = read("ai-sdk-ui", START, *lines)

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [(one.code, one.text) for one in of(Notice, found)] == [
        ("source-url", "A"),
        ("data-weather", ""),
        ("provider-error", "overloaded"),
    ]
    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]


@pytest.mark.parametrize(
    "other",
    [
        {"type": "start", "session": "s"},
        {"type": "finish", "usage": {}},
        {"type": "text-delta", "text": "x"},
        {"type": "error", "errorText": "x"},
        {"type": "tool-output-available"},
    ],
)
def test_other_lines_are_not_taken_for_its_own(other: dict[str, Any]) -> None:
    assert not builtin()["ai-sdk-ui"].recognises(other)


def test_call_that_is_told_again_is_skipped() -> None:
    assert statistics("ai-sdk-ui", lines_of((START, CALL, CALL))).skipped == {"unchanged": 1}
