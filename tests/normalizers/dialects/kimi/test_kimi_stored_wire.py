"""The session files of Kimi CLI: messages of its wire mode, with their times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, outline, read, results, said, turns
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Event, PermissionRequest, PermissionResponse, Turn, Usage

METADATA = {"type": "metadata", "protocol_version": "1.6"}
BEGIN = 1_788_000_000


def stored(at: float, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": BEGIN + at, "message": {"type": kind, "payload": payload}}


def prompt(at: float, text: str) -> dict[str, Any]:
    return stored(at, "TurnBegin", user_input=[{"type": "text", "text": text}])


def words(at: float, text: str) -> dict[str, Any]:
    return stored(at, "ContentPart", type="text", text=text)


def status(at: float, message_id: str, fresh: int, output: int, cached: int) -> dict[str, Any]:
    tokens = {"input_other": fresh, "output": output, "input_cache_read": cached, "input_cache_creation": 0}
    return stored(at, "StatusUpdate", context_usage=0.1, token_usage=tokens, message_id=message_id)


def call(at: float, call_id: str = "tool_1") -> dict[str, Any]:
    function = {"name": "Shell", "arguments": '{"command":"ls"}'}
    return stored(at, "ToolCall", type="function", id=call_id, function=function)


def result(at: float, output: str) -> dict[str, Any]:
    returned = {"is_error": False, "output": output, "message": "", "display": [], "extras": None}
    return stored(at, "ToolResult", tool_call_id="tool_1", return_value=returned)


SESSION = (
    METADATA,
    prompt(1, "List files"),
    stored(2, "StepBegin", n=1),
    stored(3, "ContentPart", type="think", think="I list.", encrypted=None),
    words(4, "Listing."),
    call(5),
    status(6, "m1", 100, 20, 50),
    result(7, "a.py"),
    stored(8, "StepBegin", n=2),
    words(9, "There is a.py."),
    status(10, "m2", 120, 10, 150),
    stored(11, "TurnEnd"),
)


def events() -> list[Event]:
    return read("kimi-wire", *SESSION)


def test_messages_are_those_of_the_wire_mode() -> None:
    assert outline(events()) == [
        "turn started",
        "message user",
        "reasoning",
        "message assistant",
        "tool-call Bash",
        "usage",
        "tool-result Bash completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert said(events()) == [("user", "List files"), ("assistant", "Listing."), ("assistant", "There is a.py.")]
    assert results(events())["Shell"].output["stdout"] == "a.py"


def test_events_have_the_times_of_their_lines() -> None:
    ended = of(Turn, events())[-1]

    assert events()[0].ts == (BEGIN + 1) * 1_000
    assert (ended.state, ended.ended_by, ended.ts) == ("completed", "provider", (BEGIN + 11) * 1_000)


def test_usage_names_its_request() -> None:
    """`input_other` excludes what was read from the cache."""
    used = [(one.scope, one.request, one.input_tokens, one.output_tokens) for one in of(Usage, events())]

    assert used == [("step", "m1", 150, 20), ("step", "m2", 270, 10)]


def test_turn_without_its_end_is_judged_by_what_it_has() -> None:
    """Early versions have no `TurnEnd`."""
    answered = read("kimi-wire", METADATA, prompt(1, "One"), words(2, "Yes."), prompt(3, "Two"), call(4))

    assert [state for _, state, _ in turns(answered)] == ["started", "completed", "started", "cancelled"]


def test_interrupted_turn_is_cancelled() -> None:
    found = read("kimi-wire", prompt(1, "Go"), words(2, "Yes"), stored(3, "StepInterrupted"), stored(4, "TurnEnd"))

    assert [state for _, state, _ in turns(found)] == ["started", "cancelled"]


def test_approval_is_asked_and_answered() -> None:
    asks = stored(3, "ApprovalRequest", id="p", tool_call_id="tool_1", sender="Shell", action="run", description="ls")
    answers = stored(4, "ApprovalResponse", request_id="p", response="approve")
    found = read("kimi-wire", prompt(1, "Go"), call(2), asks, answers, result(5, "a.py"), stored(6, "TurnEnd"))

    assert [one.call_id for one in of(PermissionRequest, found)] == ["tool_1"]
    assert [one.outcome for one in of(PermissionResponse, found)] == ["allowed"]


def test_lines_are_recognised() -> None:
    wire, session = builtin()["kimi-wire"].recognises, builtin()["kimi-session"].recognises

    assert all(wire(line) for line in SESSION)
    assert not any(session(line) for line in SESSION)
    assert not wire({"type": "metadata", "protocol_version": "1.4", "created_at": 1})


@pytest.mark.parametrize("timestamp", [-1e308, 1e308, -1, "soon", None])
def test_time_that_is_none_is_left_out(timestamp: object) -> None:
    lines = (METADATA, prompt(1, "List files"), {**words(2, "a.py"), "timestamp": timestamp})
    events = read("kimi-wire", *lines)

    assert {event.ts for event in events} == {(BEGIN + 1) * 1_000}
