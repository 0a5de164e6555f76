"""TodoWrite and TodoRead."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output

TODOS = [{"content": "Read", "status": "in_progress"}, {"content": "Edit", "status": "pending"}]


@pytest.mark.parametrize(
    "value",
    [
        {"todos": TODOS},
        {"plan": [{"step": "Read", "status": "in_progress"}, {"step": "Edit", "status": "pending"}]},
        {"plan": [{"step": "Read", "status": "inProgress"}, {"step": "Edit", "status": "pending"}]},
        {"entries": [{"content": "Read", "status": "in_progress"}, {"content": "Edit", "status": "pending"}]},
        {"todos": [{"title": "Read", "status": "doing"}, {"title": "Edit", "state": "todo"}]},
        {"todos": [{"description": "Read", "status": "in_progress"}, {"description": "Edit"}]},
        {"todos": '[{"content": "Read", "status": "in_progress"}, "Edit"]'},
        {"_acp": {"kind": "other", "rawInput": TODOS}},
        TODOS,
    ],
)
def test_todo_list_of_every_provider(value: Any) -> None:
    todos = tool_input("TodoWrite", value, "todo")["todos"]

    assert [{"content": todo["content"], "status": todo["status"]} for todo in todos] == TODOS


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ({"text": "a", "completed": True}, "completed"),
        ({"text": "a", "completed": False}, "pending"),
        ({"content": "a", "status": "done"}, "completed"),
        ({"content": "a", "status": "IN-PROGRESS"}, "in_progress"),
        ({"content": "a", "status": "In Progress"}, "in_progress"),
        ({"content": "a", "status": "not_started"}, "pending"),
        ({"content": "a", "status": "success"}, "completed"),
        ({"content": "a", "status": "cancelled"}, "cancelled"),
        ({"content": "a"}, "pending"),
        ("a", "pending"),
    ],
)
def test_entry_status(item: Any, status: str) -> None:
    assert tool_input("TodoWrite", {"items": [item]}, "todo_list")["todos"][0]["status"] == status


def test_unknown_entry_keys_are_retained() -> None:
    todo = {"content": "Read", "status": "pending", "activeForm": "Reading", "priority": "high", "id": "1"}

    assert tool_input("TodoWrite", {"todos": [todo], "explanation": "why"}, "TodoWrite") == {
        "todos": [todo],
        "explanation": "why",
    }


def test_entries_without_text_are_dropped() -> None:
    assert tool_input("TodoWrite", {"todos": [{"status": "pending"}, "", 3, " a "]}, "todo")["todos"] == [
        {"content": "a", "status": "pending"}
    ]


@pytest.mark.parametrize("value", [{}, {"todos": None}, {"todos": "all of them"}])
def test_missing_list_stays_missing(value: dict[str, Any]) -> None:
    assert tool_input("TodoWrite", value, "todo").get("todos") == value.get("todos")


JSON = '[{"content": "Read", "status": "in_progress"}, {"content": "Edit", "status": "pending"}]'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (JSON, {"todos": TODOS}),
        (TODOS, {"todos": TODOS}),
        ([{"text": "Read", "completed": True}], {"todos": [{"content": "Read", "status": "completed"}]}),
        ({"output": JSON, "metadata": {}}, {"todos": TODOS}),
        ([{"type": "text", "text": JSON}], {"todos": TODOS}),
        ('{"verb": "Updated", "todos": [], "message": "Updated 0 todos"}', {"todos": [], "message": "Updated 0 todos"}),
        (
            {"oldTodos": [], "newTodos": TODOS, "content": "Todos have been modified"},
            {"oldTodos": [], "newTodos": TODOS, "todos": TODOS, "message": "Todos have been modified"},
        ),
        ("Plan updated", {"message": "Plan updated"}),
    ],
)
@pytest.mark.parametrize("name", ["TodoWrite", "TodoRead"])
def test_the_result(name: str, value: Any, expected: dict[str, Any]) -> None:
    output = tool_output(name, value, "todo")

    found = {key: value for key, value in output.items() if key not in ("output", "metadata", "verb")}
    todos = [{"content": todo["content"], "status": todo["status"]} for todo in found.get("todos", [])]
    assert {**found, **({"todos": todos} if "todos" in found else {})} == expected


def test_reading_has_no_list_in_its_input() -> None:
    assert tool_input("TodoRead", {"action": "read"}, "vibe.todo") == {"action": "read"}
