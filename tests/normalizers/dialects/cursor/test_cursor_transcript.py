"""The `cursor-transcript` dialect: calls without ids, and how turns end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, recording, said
from tooltap.protocol.events import ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

COUNT = recording("cursor-transcript", "count", "cursor-written")


def line(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "message": {"content": list(blocks)}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


PROMPT = line("user", text("Go"))
LIST = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}


def test_recording_is_one_turn() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {("cursor-transcript", "cursor")}
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [(one.name, one.preview) for one in of(ToolCall, found)] == [("Bash", "wc -l notes.txt")]
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "provider")]


def test_result_that_no_line_has_is_marked_as_inferred() -> None:
    found = read("cursor-transcript", PROMPT, line("assistant", LIST, LIST))

    assert [(one.call_id, one.status, one.synthetic) for one in of(ToolResult, found)] == [
        ("call-1", "completed", True),
        ("call-2", "completed", True),
    ]


def test_result_that_a_line_has_is_that_of_its_call() -> None:
    lines = line("assistant", {**LIST, "id": "c1"}), line("user", {"type": "tool_result", "tool_use_id": "c1"})
    found = read("cursor-transcript", PROMPT, lines[0], line("assistant", *lines[1]["message"]["content"]))

    assert [(one.call_id, one.synthetic) for one in of(ToolResult, found)] == [("c1", False)]


@pytest.mark.parametrize(("status", "state"), [("success", "completed"), ("aborted", "cancelled"), ("error", "failed")])
def test_end_of_a_turn_says_how_it_ended(status: str, state: str) -> None:
    found = read("cursor-transcript", PROMPT, {"type": "turn_ended", "status": status, "error": "Because."})

    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), (state, "Because.")]


def test_prompt_ends_the_turn_before_it() -> None:
    found = read("cursor-transcript", PROMPT, line("assistant", text("Done.")), PROMPT)

    assert [one.state for one in of(Turn, found)][:3] == ["started", "completed", "started"]


def test_what_has_no_known_shape_is_kept() -> None:
    odd = line("robot", text("x")), line("assistant", {"type": "hologram"}), {"role": "user", "message": "x"}

    assert [one.reason for one in of(Unparsed, read("cursor-transcript", *odd))] == ["unknown-type"] * 3
