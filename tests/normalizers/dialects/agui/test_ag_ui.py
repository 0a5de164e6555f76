"""The `ag-ui` dialect: what no recording shows of the protocol's events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Message, Notice, Reasoning, SessionEvent, ToolCall, ToolResult, Turn, Usage
from tooltap.testing import Line, normalize

SHELL = recording("ag-ui", "shell", "pydantic-ai-2.68.0")
STARTED = {"type": "RUN_STARTED", "threadId": "s1", "runId": "r1"}


def finished(**more: Any) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "s1", "runId": "r1", **more}


@pytest.mark.parametrize(("value", "data"), [("once", {"value": "once"}), ({"a": 1}, {"a": 1}), (None, None)])
def test_value_of_an_event_of_anybodys_own_is_an_object(value: Any, data: Any) -> None:
    found = read("ag-ui", {"type": "CUSTOM", "name": "mine", "value": value})

    assert [(one.text, one.data) for one in of(Notice, found)] == [("mine", data)]


def test_thread_is_a_session_and_run_a_turn() -> None:
    found = normalize("auto", SHELL)

    assert {one.dialect for one in found} == {"ag-ui"}
    assert [one.session for one in of(SessionEvent, found)] == ["thread-1"]
    assert [(one.turn, one.state) for one in of(Turn, found)] == [("run-1", "started"), ("run-1", "completed")]
    assert [one.text for one in of(Message, found)] == ["Running it.", "src has app.py and util.py."]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]


def test_frames_of_server_sent_events_are_taken_off() -> None:
    data = [line.data for line in SHELL if isinstance(line.data, bytes)]
    framed = [Line(frame) for line in data for frame in (b"data: " + line, b"")]
    events = normalize("auto", [*framed, Line(b"data: [DONE]")])

    assert {one.dialect for one in events} == {"ag-ui"}
    assert [type(one) for one in events] == [type(one) for one in normalize("auto", SHELL)]


def test_prompts_of_the_input_come_once() -> None:
    said = [{"id": "m1", "role": "user", "content": "Go"}, {"id": "m2", "role": "assistant", "content": "Yes"}]
    more = [*said, {"id": "m3", "role": "user", "content": [{"type": "text", "text": "On"}]}]
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": more}
    found = read("ag-ui", {**STARTED, "input": {"messages": said}}, snapshot, snapshot, finished())

    assert [(one.role, one.text) for one in of(Message, found)] == [("user", "Go"), ("user", "On")]


def test_chunks_have_no_start_and_end() -> None:
    lines = [
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "m1", "delta": "Hm."},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m2", "delta": "It "},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m2", "delta": "is."},
        {"type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "shell", "delta": '{"command":'},
        {"type": "TOOL_CALL_CHUNK", "delta": '"ls"}'},
    ]
    found = read("ag-ui", STARTED, *lines, finished())

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [one.text for one in of(Message, found)] == ["It is."]
    assert [one.input.get("command") for one in of(ToolCall, found)] == ["ls"]


@pytest.mark.parametrize(
    ("end", "state", "code"),
    [
        (finished(), "completed", None),
        (finished(outcome={"type": "cancelled"}), "cancelled", None),
        ({"type": "RUN_ERROR", "message": "overloaded", "code": "529"}, "failed", "provider-error"),
        (
            finished(outcome={"type": "interrupt", "interrupts": [{"id": "i", "reason": "approval"}]}),
            "completed",
            "interrupt",
        ),
    ],
)
def test_run_states_its_end(end: dict[str, Any], state: str, code: str | None) -> None:
    found = read("ag-ui", STARTED, end)

    assert of(Turn, found)[-1].state == state
    assert [one.code for one in of(Notice, found)] == ([] if code is None else [code])


def test_tokens_of_a_run_are_those_of_its_requests() -> None:
    usage = {"model": "m", "inputTokens": 9, "outputTokens": 2, "cachedInputTokens": 4}
    [found] = of(Usage, read("ag-ui", STARTED, finished(usage=[usage])))

    assert (found.model, found.input_tokens, found.output_tokens, found.cache_read_tokens) == ("m", 9, 2, 4)


@pytest.mark.parametrize(
    "other",
    [{"type": "RUN_STARTED"}, {"type": "TEXT", "delta": "x"}, {"type": "run_started", "threadId": "t"}, {"delta": "x"}],
)
def test_other_lines_are_not_taken_for_its_own(other: dict[str, Any]) -> None:
    assert not builtin()["ag-ui"].recognises(other)
