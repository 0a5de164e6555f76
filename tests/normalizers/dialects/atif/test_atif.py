"""The `atif` dialect: steps of a trajectory that has grown, of any agent, with and without calls."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import FIXTURES, of, read, recording
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

COUNT = recording("atif", "count", "atif-written")
WHOLE: dict[str, Any] = orjson.loads((FIXTURES / "atif" / "atif-written" / "count.jsonl").read_bytes())


def trajectory(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": index, **step} for index, step in enumerate(steps, 1)]
    return {**WHOLE, "steps": numbered, **more}


def prompt(text: Any) -> dict[str, Any]:
    return {"source": "user", "message": text}


def test_trajectory_is_a_session_of_its_agent() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider, one.session) for one in found} == {("atif", "atelier", "run-7")}
    assert [(one.model, one.agent_version) for one in of(SessionEvent, found)] == [("model-a", "0.3")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]
    assert [(one.input_tokens, one.cost_usd) for one in of(Usage, found)] == [(1200, 0.0021), (1290, None)]


def test_steps_that_were_read_do_not_come_again() -> None:
    first, whole = {**WHOLE, "steps": WHOLE["steps"][:3]}, WHOLE
    found = read("atif", first, whole, whole, first)

    assert [one.text for one in of(Message, found)] == [
        "Count the lines of notes.txt.",
        "Counting them.",
        "It has 12 lines.",
    ]
    assert [one.code for one in of(Notice, found)] == ["rewound"]


@pytest.mark.parametrize(
    ("name", "provider"), [("mini-swe-agent", "mini-swe-agent"), ("My agent", "atif"), ("", "atif"), ("é", "atif")]
)
def test_provider_is_the_agent_if_it_is_named_like_one(name: str, provider: str) -> None:
    found = read("atif", trajectory(prompt("Go"), agent={"name": name, "version": "1"}))

    assert {one.provider for one in found} == {provider}


def test_prompt_ends_the_turn_before_it() -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    answer = {"source": "agent", "message": "", "tool_calls": [call]}
    parts = [{"type": "text", "text": "Then this."}]
    found = read("atif", trajectory(prompt("Go"), answer, prompt(parts)))

    assert [one.text for one in of(Message, found)] == ["Go", "Then this."]
    assert [one.state for one in of(Turn, found)][:3] == ["started", "cancelled", "started"]


def test_what_belongs_to_no_call_is_a_notice() -> None:
    seen = {"results": [{"content": "The window was reset."}]}
    found = read("atif", trajectory(prompt("Go"), {"source": "agent", "message": "Yes.", "observation": seen}))

    assert [(one.code, one.text) for one in of(Notice, found)] == [("observation", "The window was reset.")]


def test_step_and_call_of_an_unknown_shape_are_kept() -> None:
    lines = trajectory(
        {"source": "robot", "message": "x"}, {"source": "agent", "message": "", "tool_calls": [{"a": 1}]}
    )

    assert [one.reason for one in of(Unparsed, read("atif", lines, {**WHOLE, "steps": {}}))] == ["unknown-type"] * 3
