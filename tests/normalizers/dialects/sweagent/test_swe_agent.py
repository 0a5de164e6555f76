"""The `swe-agent` dialect: models without function calls, ends of runs, and how a printed trajectory is recognised."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import FIXTURES, of, read
from tooltap.protocol.events import Message, Notice, ToolCall, ToolResult, Turn, Usage
from tooltap.testing import Line, normalize

EDIT = FIXTURES / "swe-agent" / "swe-agent-1.1-written" / "edit.jsonl"
TASK = {"role": "user", "content": "Fix it.", "message_type": "observation"}


def document(*history: dict[str, Any], steps: tuple[dict[str, Any], ...] = (), **info: Any) -> dict[str, Any]:
    return {"trajectory": list(steps), "history": list(history), "info": {"swe_agent_version": "1.1.0", **info}}


def said(thought: str, action: str) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{thought}\n{action}", "thought": thought, "action": action}


def printed(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"Observation: {text}\n(Open file: n/a)", "message_type": "observation"}


def step(action: str, observation: str) -> dict[str, Any]:
    return {"action": action, "observation": observation, "response": "", "thought": ""}


RAN = (TASK, said("I look.", "ls"), printed("a.py"))


def test_indented_trajectory_is_recognised_and_read_like_one_in_a_line() -> None:
    whole = orjson.loads(EDIT.read_bytes())
    lines = [Line(line) for line in orjson.dumps(whole, option=orjson.OPT_INDENT_2).split(b"\n")]
    found = normalize("auto", lines)

    assert {event.dialect for event in found} == {"swe-agent"}
    assert [type(event) for event in found] == [type(event) for event in read("swe-agent", whole)]


def test_command_in_a_text_is_a_call_with_what_it_printed() -> None:
    found = read("swe-agent", document(*RAN, steps=(step("ls", "a.py"),)))

    assert [one.text for one in of(Message, found)] == ["Fix it.", "I look."]
    assert [(one.name, one.input["command"]) for one in of(ToolCall, found)] == [("Bash", "ls")]
    assert [one.output["stdout"] for one in of(ToolResult, found)] == ["a.py"]


def test_answer_that_the_model_had_to_repeat_takes_no_output_of_the_next() -> None:
    found = read("swe-agent", document(*RAN, steps=(step("lss", "no such command"), step("ls", "a.py"))))

    assert [one.output["stdout"] for one in of(ToolResult, found)] == ["a.py"]


def test_demonstration_is_not_what_the_user_said() -> None:
    found = read("swe-agent", document({**TASK, "content": "An example", "is_demo": True}, *RAN))

    assert of(Message, found)[0].text == "Fix it."


@pytest.mark.parametrize(
    ("status", "outcome"), [("submitted", "completed"), ("submitted (exit_cost)", "completed"), ("exit_cost", "failed")]
)
def test_exit_status_states_the_end(status: str, outcome: str) -> None:
    stats = {"tokens_sent": 7, "tokens_received": 2, "instance_cost": 0.5}
    found = read("swe-agent", document(*RAN, exit_status=status, submission="--- a", model_stats=stats))

    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), (outcome, status)]
    assert [(one.input_tokens, one.output_tokens, one.cost_usd) for one in of(Usage, found)] == [(7, 2, 0.5)]
    assert of(Message, found)[-1].text == "--- a"


def test_patch_that_a_command_has_printed_is_there_once() -> None:
    done = (said("Done.", "submit"), printed("--- a"))
    steps = step("ls", "a.py"), step("submit", "--- a")
    found = read("swe-agent", document(*RAN, *done, steps=steps, exit_status="submitted", submission="--- a"))

    assert of(Message, found)[-1].text == "Done."


def test_trajectory_that_grows_is_read_once() -> None:
    versions = [document(*RAN[:end]) for end in range(1, len(RAN) + 1)]
    end = document(*RAN, exit_status="submitted")
    found = read("swe-agent", *versions, end, end)

    assert [type(event) for event in found] == [type(event) for event in read("swe-agent", end)]


def test_trajectory_that_another_one_replaces_is_rewound() -> None:
    found = read("swe-agent", document(*RAN), document({**TASK, "content": "Other"}))

    assert "rewound" in [one.code for one in of(Notice, found)]
