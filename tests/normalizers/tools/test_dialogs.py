"""Plan mode, questions, titles, reasoning, tools of MCP servers, and unknown tools."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output

CLAUDE = {
    "question": "Which database?",
    "header": "Database",
    "multiSelect": False,
    "options": [{"label": "SQLite", "description": "Simple file"}, {"label": "Postgres"}],
}


@pytest.mark.parametrize(
    ("value", "questions"),
    [
        ({"questions": [CLAUDE]}, [CLAUDE]),
        (
            {"question": "Which?", "options": ["SQLite", "Postgres"]},
            [{"question": "Which?", "options": [{"label": "SQLite"}, {"label": "Postgres"}]}],
        ),
        ({"question": "Which?", "choices": ["A"]}, [{"question": "Which?", "options": [{"label": "A"}]}]),
        ({"questions": [{"question": "Which?", "multiple": True}]}, [{"question": "Which?", "multiSelect": True}]),
    ],
)
def test_questions_to_the_user(value: dict[str, Any], questions: list[dict[str, Any]]) -> None:
    found = tool_input("AskUserQuestion", value, "ask_user")["questions"]

    assert [{key: one[key] for key in expected} for one, expected in zip(found, questions, strict=True)] == questions


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        ({"answers": {"Which database?": "SQLite"}, "questions": [CLAUDE]}, {"Which database?": "SQLite"}),
        ('{"answers":{"db":{"answers":["SQLite (Recommended)"]}}}', {"db": "SQLite (Recommended)"}),
        ({"answers": {"db": ["A", "B"]}}, {"db": "A, B"}),
    ],
)
def test_user_answers(value: Any, answers: dict[str, str]) -> None:
    assert tool_output("AskUserQuestion", value, "request_user_input")["answers"] == answers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("thoughts", {"content": "thoughts"}),
        ({"text": "thoughts"}, {"text": "thoughts", "content": "thoughts"}),
        ({"content": "\n\nthoughts", "status": "canceled"}, {"content": "\n\nthoughts", "status": "canceled"}),
    ],
)
def test_reasoning(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("Reasoning", value, "CodexReasoning") == expected


def test_reasoning_title() -> None:
    assert tool_input("Reasoning", "Planning", "think") == {"title": "Planning"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Successfully changed chat title to: "Say "hi""', {"title": 'Say "hi"'}),
        ("Title changed to: Demo title", {"title": "Demo title"}),
        ('Renamed to "Demo"', {"title": "Demo"}),
        ("ok", {"message": "ok"}),
    ],
)
def test_changed_title(text: str, expected: dict[str, Any]) -> None:
    blocks = [{"type": "text", "text": text}]

    assert tool_output("change_title", text, "change_title") == expected
    assert tool_output("change_title", blocks, "change_title") == expected
    assert tool_output("change_title", {"content": blocks}, "change_title") == {"content": blocks, **expected}


def test_plan_of_plan_mode() -> None:
    assert tool_input("ExitPlanMode", {"plan": "1. Read"}, "ExitPlanMode") == {"plan": "1. Read"}
    assert tool_output("ExitPlanMode", {"plan": None, "isAgent": False}, "ExitPlanMode") == {"isAgent": False}
    assert tool_input("EnterPlanMode", None, "EnterPlanMode") == {}


def test_mcp_tool_payloads() -> None:
    name = "mcp__linear-server__create_issue"
    identity = {"serverId": "linear-server", "toolId": "create_issue"}

    assert tool_input(name, {"title": "x"}, name) == {"title": "x", "_mcp": identity}
    assert tool_output(name, [{"type": "text", "text": "ENG-1"}], name) == {"text": "ENG-1", "_mcp": identity}
    assert tool_output(name, {"content": [{"type": "text", "text": "no"}], "isError": True}, name) == {
        "isError": True,
        "text": "no",
        "_mcp": identity,
        "errorMessage": "no",
    }


@pytest.mark.parametrize("name", ["mcp__a__b__c", "mcp__a", "mcp____b"])
def test_ambiguous_mcp_name_is_not_split(name: str) -> None:
    assert tool_input(name, {"x": 1}, name) == {"x": 1}


@pytest.mark.parametrize(
    ("value", "as_input", "as_output"),
    [
        ({"a": 1, "b": None}, {"a": 1}, {"a": 1}),
        ("text", {"value": "text"}, {"value": "text"}),
        ([1], {"items": [1]}, {"value": [1]}),
        (None, {}, {}),
        (3, {"value": 3}, {"value": 3}),
    ],
)
def test_unknown_tool_keeps_its_payload(value: Any, as_input: dict[str, Any], as_output: dict[str, Any]) -> None:
    assert tool_input("no_such_tool", value, "no_such_tool") == as_input
    assert tool_output("no_such_tool", value, "no_such_tool") == as_output
