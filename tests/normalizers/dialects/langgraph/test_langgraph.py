"""The `langgraph` dialect: prompts, failing tools and calls that cannot be read, which no recording shows."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import of, read, recording
from tooltap.protocol.events import Message, Notice, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

CALL = {"name": "weather", "args": {"city": "Ulm"}, "id": "c1", "type": "tool_call"}


def update(kind: str, **data: Any) -> dict[str, Any]:
    return {"node": "agent", "messages": [{"type": kind, "data": {"content": "", "type": kind, **data}}]}


def test_recording_is_recognised_and_ends_with_an_answer() -> None:
    found = normalize("auto", recording("langgraph", "shell", "langgraph-1.2.24"))

    assert {one.dialect for one in found} == {"langgraph"}
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


def test_prompt_begins_a_turn() -> None:
    lines = update("human", content="One"), update("ai", tool_calls=[CALL]), update("human", content="Two")
    found = read("langgraph", *lines, update("ai", content="Done."))

    assert [one.text for one in of(Message, found)] == ["One", "Two", "Done."]
    assert [one.state for one in of(Turn, found)] == ["started", "cancelled", "started", "completed"]


def test_tool_states_that_it_failed() -> None:
    failed = update("tool", tool_call_id="c1", name="weather", content="no such city", status="error")
    [result] = of(ToolResult, read("langgraph", update("human", content="Go"), update("ai", tool_calls=[CALL]), failed))

    assert (result.status, result.output["errorMessage"]) == ("failed", "no such city")


def test_what_cannot_be_read_is_not_lost() -> None:
    wrong = {"name": "weather", "args": "{", "id": "c1", "error": "not JSON"}
    found = read("langgraph", update("ai", invalid_tool_calls=[wrong]), update("strange"))

    assert [(one.code, one.text) for one in of(Notice, found)] == [("invalid-call", "not JSON")]
    assert len(of(Unparsed, found)) == 1
