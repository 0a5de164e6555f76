"""The `kiro-session` dialect: results, and what an answer without a call means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import answer, of, read, recording, said
from tooltap.protocol.events import Reasoning, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

COUNT = recording("kiro-session", "count", "kiro-cli-2.14-written")


def line(kind: str, *blocks: tuple[str, Any], **data: Any) -> dict[str, Any]:
    content = [{"kind": block, "data": value} for block, value in blocks]
    return {"version": "v1", "kind": kind, "data": {"message_id": "m", "content": content, **data}}


def call(name: str, **given: Any) -> dict[str, Any]:
    return line("AssistantMessage", ("toolUse", {"toolUseId": "c1", "name": name, "input": given}))


def result(*parts: dict[str, Any], status: str = "success") -> dict[str, Any]:
    return line("ToolResults", ("toolResult", {"toolUseId": "c1", "content": list(parts), "status": status}))


PROMPT = line("Prompt", ("text", "Go"))


def test_recording_is_one_turn_that_its_answer_ends() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {("kiro-session", "kiro")}
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [one.text for one in of(Reasoning, found)] == ["wc does it."]
    assert [answer(one.input) for one in of(ToolCall, found)] == [{"command": "wc -l notes.txt"}]
    [shell] = of(ToolResult, found)
    assert answer(shell.output) == {"stdout": "12 notes.txt\n", "stderr": "", "exit_code": 0}
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


@pytest.mark.parametrize(
    ("name", "given", "canonical"),
    [
        ("execute_bash", {"command": "ls"}, "Bash"),
        ("fs_write", {"command": "create", "path": "a"}, "Write"),
        ("write", {"command": "str_replace", "path": "a", "old_str": "b", "new_str": "c"}, "Edit"),
        ("use_aws", {"service": "s3"}, "use_aws"),
    ],
)
def test_tools_have_canonical_names(name: str, given: dict[str, Any], canonical: str) -> None:
    assert [one.name for one in of(ToolCall, read("kiro-session", PROMPT, call(name, **given)))] == [canonical]


@pytest.mark.parametrize(
    ("answered", "status", "error"),
    [
        (result({"kind": "text", "data": "no such tool"}, status="error"), "failed", "no such tool"),
        (result({"kind": "json", "data": {"exit_status": "exit status: 2", "stdout": ""}}), "failed", None),
        (result({"kind": "json", "data": {"exit_status": "signal: 9", "stdout": ""}}), "completed", None),
    ],
)
def test_result_states_how_a_call_ended(answered: dict[str, Any], status: str, error: str | None) -> None:
    [found] = of(ToolResult, read("kiro-session", PROMPT, call("shell", command="ls"), answered))

    assert (found.status, found.output.get("errorMessage")) == (status, error)


def test_what_has_no_known_shape_is_kept() -> None:
    odd = [
        line("Compaction", ("text", "x")),
        line("AssistantMessage", ("hologram", "x")),
        line("AssistantMessage", ("toolUse", {"name": "shell"})),
        line("ToolResults", ("toolResult", {"content": []})),
    ]

    assert [one.reason for one in of(Unparsed, read("kiro-session", *odd))] == ["unknown-type"] * 4
