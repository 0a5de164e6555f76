"""The `mini-trajectory` dialect: what no recording shows, and how a printed trajectory is recognised."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import FIXTURES, of, read
from tooltap.protocol.events import Message, Notice, ToolResult, Turn
from tooltap.testing import Line, normalize

SHELL = FIXTURES / "mini-trajectory" / "mini-2.4.6" / "shell.jsonl"
CALL = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "make"}'}}


def document(*messages: dict[str, Any], template: str = "Solve: {{task}}\nBy {{system}}") -> dict[str, Any]:
    config = {"agent": {"instance_template": template}, "environment": {"cwd": "/w"}}
    return {"info": {"config": config, "mini_version": "2.4.6"}, "messages": list(messages)}


def task(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"Solve: {text}\nBy Linux"}


def ran(output: str, code: int, error: str = "") -> list[dict[str, Any]]:
    extra = {"raw_output": output, "returncode": code, "exception_info": error}
    return [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "{}", "extra": extra},
    ]


def left(status: str, submission: str = "") -> dict[str, Any]:
    return {"role": "exit", "content": status, "extra": {"exit_status": status, "submission": submission}}


def test_indented_trajectory_is_recognised_and_read_like_one_in_a_line() -> None:
    whole = orjson.loads(SHELL.read_bytes())
    printed = orjson.dumps(whole, option=orjson.OPT_INDENT_2).split(b"\n")
    found = normalize("auto", [Line(line) for line in printed])

    assert {event.dialect for event in found} == {"mini-trajectory"}
    assert [type(event) for event in found] == [type(event) for event in read("mini-trajectory", whole)]


def test_task_is_what_the_user_said() -> None:
    assert [one.text for one in of(Message, read("mini-trajectory", document(task("Fix it."))))] == ["Fix it."]


@pytest.mark.parametrize("template", ["", "Other: {{task}}", "Solve: {{task}} Elsewhere"])
def test_prompt_of_another_template_is_whole(template: str) -> None:
    found = of(Message, read("mini-trajectory", document(task("Fix it."), template=template)))

    assert [one.text for one in found] == ["Solve: Fix it.\nBy Linux"]


@pytest.mark.parametrize(
    ("code", "error", "status"), [(0, "", "completed"), (2, "", "failed"), (-1, "timed out", "failed")]
)
def test_exit_code_and_exception_say_how_a_command_ended(code: int, error: str, status: str) -> None:
    [result] = of(ToolResult, read("mini-trajectory", document(task("Fix it."), *ran("made\n", code, error))))

    assert (result.status, result.output["stdout"], result.output["exit_code"]) == (status, "made\n", code)
    assert result.output.get("errorMessage") == (error or None)


@pytest.mark.parametrize(("status", "outcome"), [("Submitted", "completed"), ("LimitsExceeded", "failed")])
def test_exit_states_the_end(status: str, outcome: str) -> None:
    found = read("mini-trajectory", document(task("Fix it."), *ran("", 0), left(status, "Fixed.")))

    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), (outcome, status)]
    assert of(Message, found)[-1].text == "Fixed."


def test_trajectory_that_grows_is_read_once() -> None:
    said = [task("Fix it."), *ran("", 0), left("Submitted")]
    found = read("mini-trajectory", *(document(*said[:end]) for end in range(1, len(said) + 1)))

    assert [type(event) for event in found] == [type(event) for event in read("mini-trajectory", document(*said))]


def test_trajectory_that_another_one_replaces_is_rewound() -> None:
    found = read("mini-trajectory", document(task("First"), *ran("", 0)), document(task("Second")))

    assert [one.code for one in of(Notice, found)] == ["rewound"]
    assert of(Message, found)[-1].text == "Second"
