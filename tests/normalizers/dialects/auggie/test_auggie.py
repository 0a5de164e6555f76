"""Auggie's result and session documents: ends, failed calls, documents that grow, and whose lines they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.normalizers.reading import FIXTURES, of, read, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Message, Notice, Reasoning, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

CLAUDE = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "text-only.jsonl"
VERSION = "auggie-0.36.0-written"
RESULT = {"type": "result", "result": "Fixed.", "is_error": False, "num_turns": 3, "request_id": "r", "session_id": "s"}
CALL = {"type": 5, "tool_use": {"tool_use_id": "c1", "tool_name": "launch-process", "input_json": '{"command": "a"}'}}


def exchange(prompt: str, text: str, *nodes: dict[str, Any], result: dict[str, Any] | None = None) -> dict[str, Any]:
    asked = [] if result is None else [{"type": 1, "tool_result_node": result}]
    answered = {"response_text": text, "response_nodes": list(nodes)}
    return {"exchange": {"request_message": prompt, "request_nodes": asked, **answered}}


def document(*exchanges: dict[str, Any]) -> dict[str, Any]:
    return {"sessionId": "s", "chatHistory": list(exchanges), "agentState": {}}


def test_session_that_grows_is_read_once() -> None:
    found = normalize("auto", recording("auggie-session", "shell", VERSION))

    assert {one.dialect for one in found} == {"auggie-session"}
    assert [one.text for one in of(Message, found)] == [
        "How many lines has notes.txt?",
        "Counting them.",
        "It has 3 lines.",
    ]
    assert [one.text for one in of(Reasoning, found)] == ["I count."]
    assert [(one.output["stdout"], one.output["exit_code"]) for one in of(ToolResult, found)] == [("3 notes.txt", 0)]
    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(100, 10)] * 2
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


@pytest.mark.parametrize(
    ("content", "is_error", "status"),
    [
        ("<return-code>\n2\n</return-code>\n<output>\nno rule\n</output>", False, "failed"),
        ("no such tool", True, "failed"),
        ("done", False, "completed"),
    ],
)
def test_result_states_how_a_call_ended(content: str, is_error: bool, status: str) -> None:
    result = {"tool_use_id": "c1", "content": content, "is_error": is_error}
    found = read("auggie-session", document(exchange("Go.", "", CALL), exchange("", "So.", result=result)))

    assert [one.status for one in of(ToolResult, found)] == [status]


def test_shortened_history_is_rewound() -> None:
    found = read("auggie-session", document(exchange("Go.", "Gone.")), document(exchange("Stop.", "Stopped.")))

    assert [one.code for one in of(Notice, found)] == ["rewound"]
    assert of(Message, found)[-1].text == "Stopped."


def test_call_without_an_id_is_unparsed() -> None:
    found = read("auggie-session", document(exchange("Go.", "", {"type": 5, "tool_use": {"tool_name": "view"}})))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]


@pytest.mark.parametrize(("is_error", "outcome"), [(False, "completed"), (True, "failed")])
def test_result_line_ends_the_turn(is_error: bool, outcome: str) -> None:
    found = read("auggie-json", {**RESULT, "is_error": is_error})

    assert [one.state for one in of(Turn, found)] == ["started", outcome]
    texts = [one.text for one in of(Message, found)], [one.text for one in of(Notice, found)]
    assert texts == (([], ["Fixed."]) if is_error else (["Fixed."], []))


def test_result_of_claude_code_is_not_taken() -> None:
    stated = json.loads(CLAUDE.read_bytes().splitlines()[-1])

    assert stated["type"] == "result"
    assert not builtin()["auggie-json"].recognises({**stated, "request_id": "r"})
