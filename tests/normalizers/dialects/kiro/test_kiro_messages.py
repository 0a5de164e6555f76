"""The `kiro-messages` dialect: permissions, results, and how turns end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import answer, of, read, recording, said
from tooltap.protocol.events import Notice, PermissionRequest, PermissionResponse, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

COUNT = recording("kiro-messages", "count", "kiro-cli-written")


def line(of_type: str, **payload: Any) -> dict[str, Any]:
    return {"id": "e", "timestamp": "2026-11-26T11:20:00.000Z", "payload": {"type": of_type, **payload}}


PROMPT = line("user", content="Go")
CALL = line("tool_call", toolCallId="c1", toolName="execute_bash", status="completed", args={"command": "ls"})


def test_recording_is_one_turn_with_a_permission() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {("kiro-messages", "kiro")}
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [(one.permission_id, one.title) for one in of(PermissionRequest, found)] == [
        ("call-1", "Run wc -l notes.txt")
    ]
    assert [(one.permission_id, one.outcome) for one in of(PermissionResponse, found)] == [("call-1", "allowed")]
    [shell] = of(ToolResult, found)
    assert answer(shell.output) == {"stdout": "12 notes.txt", "exit_code": 0}
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


@pytest.mark.parametrize(
    ("reason", "state"), [("end_turn", "completed"), ("cancelled", "cancelled"), (None, "completed")]
)
def test_end_of_a_turn_says_how_it_ended(reason: str | None, state: str) -> None:
    found = read("kiro-messages", PROMPT, line("turn_end", stopReason=reason))

    assert [one.state for one in of(Turn, found)] == ["started", state]


@pytest.mark.parametrize(
    ("result", "status", "error"),
    [
        ({"content": "x\n\nExit Code: 3"}, "failed", None),
        ({"content": "denied by rule", "success": False}, "failed", "denied by rule"),
        ({"content": "no code here"}, "completed", None),
    ],
)
def test_result_states_how_a_call_ended(result: dict[str, Any], status: str, error: str | None) -> None:
    [found] = of(ToolResult, read("kiro-messages", PROMPT, CALL, line("tool_result", toolCallId="c1", **result)))

    assert (found.status, found.output.get("errorMessage")) == (status, error)


def test_shortened_context_is_noticed_with_its_summary() -> None:
    lines = line("tombstone", kind="summarization"), line("assistant", operationType="Summary", content="Counted.")

    assert [(one.code, one.text) for one in of(Notice, read("kiro-messages", PROMPT, *lines))] == [
        ("compaction", ""),
        ("summary", "Counted."),
    ]


def test_what_has_no_known_shape_is_kept() -> None:
    odd = line("hologram"), line("session_metadata", key="mood"), line("tool_call", toolName="shell")

    assert [one.reason for one in of(Unparsed, read("kiro-messages", *odd))] == ["unknown-type"] * 3
