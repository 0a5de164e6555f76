"""Task."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output


@pytest.mark.parametrize(
    ("raw_name", "value", "operation"),
    [
        ("Task", {"prompt": "Find greet"}, "run"),
        ("Agent", {"prompt": "Find greet"}, "run"),
        ("spawn_agent", {"message": "Find greet"}, "run"),
        ("TaskCreate", {"subject": "Read", "description": "Read the code."}, "create"),
        ("TaskUpdate", {"taskId": "1", "status": "in_progress"}, "update"),
        ("TaskGet", {"taskId": "1"}, "get"),
        ("TaskList", {}, "list"),
        ("task", {"subject": "Read"}, "create"),
        ("task", {"taskId": 1, "status": "completed"}, "update"),
        ("task", {"operation": "delete"}, "delete"),
    ],
)
def test_task_operation(raw_name: str, value: dict[str, Any], operation: str) -> None:
    assert tool_input("Task", value, raw_name)["operation"] == operation


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": "Find greet", "subagent_type": "explore"},
        {"message": "Find greet", "agent_type": "explore"},
        {"task": "Find greet", "agent_name": "explore"},
    ],
)
def test_subagent_input(value: dict[str, Any]) -> None:
    task = tool_input("Task", value, "spawn_agent")

    assert (task["prompt"], task["subagent_type"]) == ("Find greet", "explore")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("greet is in app.py", {"content": "greet is in app.py"}),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {"content": "a\nb"}),
        ([{"id": "1", "subject": "Read"}], {"tasks": [{"id": "1", "subject": "Read"}]}),
        (
            {
                "status": "completed",
                "agentId": "a1",
                "content": [{"type": "text", "text": "done"}],
                "tokens": 9,
            },
            {"status": "completed", "agentId": "a1", "content": "done", "tokens": 9},
        ),
        ('{"agent_id":"01a1","nickname":"Galileo"}', {"agent_id": "01a1", "nickname": "Galileo"}),
        ({"tasks": [], "content": "No tasks"}, {"tasks": [], "content": "No tasks"}),
        ("", {}),
    ],
)
def test_the_result(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("Task", value, "Task") == expected
