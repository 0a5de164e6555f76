"""The `trae-trajectory` dialect: runs of Trae Agent that grow, succeed and fail."""

from __future__ import annotations

from typing import Any

import orjson

from tests.normalizers.reading import FIXTURES, of, read, recording, said
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import Line, normalize

VERSION = "trae-agent-0.1-written"
COUNT = recording("trae-trajectory", "count", VERSION)
WHOLE: dict[str, Any] = orjson.loads((FIXTURES / "trae-trajectory" / VERSION / "count.jsonl").read_bytes())
BEGUN = {**WHOLE, "end_time": "", "success": False, "final_result": None, "llm_interactions": [], "agent_steps": []}


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"step_number": number, "timestamp": f"2026-11-26T11:20:0{number}.5", "state": "calling_tool", **fields}


def test_trajectory_is_a_session_with_one_turn() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {("trae-trajectory", "trae-agent")}
    assert [one.model for one in of(SessionEvent, found)] == ["model-a"]
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [
        ("Bash", "completed"),
        ("task_done", "completed"),
    ]
    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(1200, 42), (1290, 9)]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_document_printed_over_many_lines_is_recognised() -> None:
    lines = orjson.dumps(WHOLE, option=orjson.OPT_INDENT_2).splitlines()

    assert said(normalize("auto", [Line(one) for one in lines])) == said(normalize("auto", COUNT))


def test_what_was_read_does_not_come_again() -> None:
    half = {**BEGUN, "llm_interactions": WHOLE["llm_interactions"][:1], "agent_steps": WHOLE["agent_steps"][:1]}
    found = read("trae-trajectory", BEGUN, half, WHOLE, WHOLE)

    assert len(of(Message, found)) == 3
    assert len(of(Usage, found)) == 2
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_call_that_failed_has_its_error() -> None:
    call = {"call_id": "c1", "name": "bash", "arguments": {"command": "ls x"}}
    result = {"call_id": "c1", "success": False, "result": None, "error": "no such file"}
    steps = [step(1, tool_calls=[call], tool_results=[result])]
    [found] = of(ToolResult, read("trae-trajectory", {**BEGUN, "agent_steps": steps}))

    assert (found.status, found.output["errorMessage"]) == ("failed", "no such file")


def test_run_that_gave_up_has_failed() -> None:
    steps = [step(1, error="Invalid key."), step(2, reflection="The key is wrong.")]
    found = read("trae-trajectory", {**BEGUN, "agent_steps": steps, "end_time": "2026-11-26T11:20:04"})

    assert [(one.code, one.level, one.text) for one in of(Notice, found)] == [
        ("error", "error", "Invalid key."),
        ("reflection", "info", "The key is wrong."),
    ]
    assert [one.state for one in of(Turn, found)] == ["started", "failed"]


def test_run_that_is_cut_is_not_completed() -> None:
    assert [one.state for one in of(Turn, read("trae-trajectory", BEGUN))] == ["started", "cancelled"]


def test_trajectory_that_began_anew_is_noticed() -> None:
    found = read("trae-trajectory", {**BEGUN, "agent_steps": [step(1), step(2)]}, {**BEGUN, "agent_steps": [step(3)]})

    assert [one.code for one in of(Notice, found)] == ["rewound"]


def test_call_and_result_of_an_unknown_shape_are_kept() -> None:
    odd = {**BEGUN, "agent_steps": [step(1, tool_calls=[{"a": 1}], tool_results=[{"b": 2}])]}
    found = read("trae-trajectory", odd, {**BEGUN, "task": 1})

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"] * 3
