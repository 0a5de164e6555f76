"""The `openhands-json` dialect: the lines for a person among the events, times without a zone, and files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, recording
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Message, SessionEvent, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import Line, normalize

SHELL = recording("openhands-json", "shell", "openhands-1.16.0")
TIME = "2026-11-26T11:22:54.082877"


def prompt(text: str = "Hi") -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"id": "e1", "timestamp": TIME, "source": "user", "llm_message": message, "kind": "MessageEvent"}


def action(tool: str, **given: Any) -> dict[str, Any]:
    call = {"id": "c1", "tool_call_id": "c1", "tool_name": tool, "thought": [], "action": {**given, "kind": "Action"}}
    return {**call, "timestamp": TIME, "source": "agent", "kind": "ActionEvent"}


def observation(text: str, **more: Any) -> dict[str, Any]:
    seen = {"content": [{"type": "text", "text": text}], "is_error": False, **more}
    return {"id": "o1", "timestamp": TIME, "source": "environment", "tool_call_id": "c1", "observation": seen} | {
        "tool_name": "terminal",
        "kind": "ObservationEvent",
    }


def test_recording_is_recognised_from_its_first_event_on() -> None:
    found = normalize("auto", SHELL)

    assert {one.dialect for one in found} == {"openhands-json"}
    assert of(Unparsed, found) == []


def test_session_is_named_at_the_end() -> None:
    found = normalize("openhands-json", SHELL, Context(stream="s", session="mine"))

    assert [(one.state, one.session, one.model, one.alias) for one in of(SessionEvent, found)] == [
        ("started", "mine", "openai/fake-model", None),
        ("updated", "3c4ae14c-d35a-4c7f-8e42-4532d1ba11aa", None, "mine"),
    ]


def test_agent_states_that_it_has_finished() -> None:
    found = read("openhands-json", prompt(), Line(b"Agent finished"), Line(b"Agent finished"))

    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "provider")]


def test_text_that_is_not_known_stays() -> None:
    found = read("openhands-json", prompt(), Line(b"Traceback (most recent call last):"))

    assert [(one.reason, one.text) for one in of(Unparsed, found)] == [
        ("not-json", "Traceback (most recent call last):")
    ]


def test_time_of_receipt_is_better_than_one_without_a_zone() -> None:
    line = Line(SHELL[4].data, t=1_795_699_999_000)

    assert [one.ts for one in of(Message, read("openhands-json", line))] == [1_795_699_999_000]
    assert [one.ts for one in of(Message, read("openhands-json", prompt()))] == [1_795_692_174_083]


@pytest.mark.parametrize(
    ("command", "name"), [("view", "Read"), ("create", "Write"), ("str_replace", "Edit"), ("insert", "Edit")]
)
def test_editor_is_several_tools(command: str, name: str) -> None:
    [call] = of(ToolCall, read("openhands-json", prompt(), action("file_editor", command=command, path="/w/a.py")))

    assert (call.name, call.input["file_path"], "kind" in call.input) == (name, "/w/a.py", False)


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ({"exit_code": 0}, "completed"),
        ({"exit_code": 3}, "failed"),
        ({"exit_code": -1, "timeout": True}, "failed"),
        ({"is_error": True}, "failed"),
    ],
)
def test_observation_states_how_a_command_ended(stated: dict[str, Any], status: str) -> None:
    found = read("openhands-json", prompt(), action("terminal", command="make"), observation("done", **stated))

    assert [(one.status, one.output["stdout"]) for one in of(ToolResult, found)] == [(status, "done")]
