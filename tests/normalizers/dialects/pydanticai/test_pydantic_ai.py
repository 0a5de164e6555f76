"""The `pydantic-ai` dialect: runs of a conversation, and what tools return."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import FIXTURES, of, read
from tooltap.protocol.events import Message, SessionEvent, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import Line, normalize

SHELL = (FIXTURES / "pydantic-ai" / "pydantic-ai-2.68.0" / "shell.jsonl").read_bytes().splitlines()


def prompt(text: str, run: str = "r1", session: str = "s1") -> dict[str, Any]:
    part = {"part_kind": "user-prompt", "content": text}
    return {"kind": "request", "parts": [part], "run_id": run, "conversation_id": session}


def response(*parts: dict[str, Any], run: str = "r1") -> dict[str, Any]:
    return {"kind": "response", "parts": list(parts), "run_id": run, "conversation_id": "s1", "finish_reason": "stop"}


CALL = {"part_kind": "tool-call", "tool_name": "weather", "args": {"city": "Ulm"}, "tool_call_id": "c1"}


def returned(content: Any, outcome: str) -> dict[str, Any]:
    part = {"part_kind": "tool-return", "tool_name": "weather", "tool_call_id": "c1"}
    return {**prompt(""), "parts": [{**part, "content": content, "outcome": outcome}]}


def test_list_and_lines_of_messages_are_one() -> None:
    """The SDK writes a list on one line."""
    apart = normalize("auto", [Line(line) for line in SHELL])
    whole = normalize("auto", [Line(b"[" + b",".join(SHELL) + b"]")])

    assert {one.dialect for one in (*whole, *apart)} == {"pydantic-ai"}
    assert [(type(one), one.ts, one.session) for one in whole] == [(type(one), one.ts, one.session) for one in apart]


def test_run_is_a_turn_of_its_conversation() -> None:
    text = {"part_kind": "text", "content": "Yes."}
    found = read("pydantic-ai", prompt("One"), response(text), prompt("Two", run="r2"), response(CALL, run="r2"))

    assert [(one.turn, one.state) for one in of(Turn, found)] == [
        ("r1", "started"),
        ("r1", "completed"),
        ("r2", "started"),
        ("r2", "cancelled"),
    ]
    assert [one.session for one in of(SessionEvent, found)] == ["s1"]


@pytest.mark.parametrize(
    ("content", "outcome", "status"),
    [("sunny", "success", "completed"), ({"sun": 1}, "success", "completed"), ("no such city", "failed", "failed")],
)
def test_outcome_says_how_a_tool_ended(content: Any, outcome: str, status: str) -> None:
    [result] = of(ToolResult, read("pydantic-ai", prompt("Go"), response(CALL), returned(content, outcome)))

    assert (result.status, result.output.get("errorMessage")) == (status, content if status == "failed" else None)


def test_part_of_an_unknown_kind_is_kept() -> None:
    strange = {"part_kind": "strange", "content": "x"}
    found = read("pydantic-ai", prompt("Go"), response(strange, {"part_kind": "text", "content": "Done."}))

    assert len(of(Unparsed, found)) == 1
    assert of(Message, found)[-1].text == "Done."


def test_call_in_a_request_is_a_call() -> None:
    found = read("pydantic-ai", {**prompt(""), "parts": [CALL]}, returned("sunny", "success"))

    assert [one.call_id for one in of(ToolCall, found)] == ["c1"]
    assert [(one.call_id, one.status) for one in of(ToolResult, found)] == [("c1", "completed")]
    assert not of(Unparsed, found)
