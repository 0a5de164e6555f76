"""What the client stopped: the call that ran, and the turn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read
from tooltap.protocol.events import ToolResult, Turn


def rpc(**keys: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **keys}


def update(kind: str, /, **keys: Any) -> dict[str, Any]:
    value = {"sessionUpdate": kind, "toolCallId": "a", **keys}
    return rpc(method="session/update", params={"sessionId": "s", "update": value})


def stopped(*lines: dict[str, Any], tool: str = "execute") -> list[Any]:
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "Go"}]}
    return read(
        "acp",
        rpc(id=1, method="session/prompt", params=prompt),
        update("tool_call", kind=tool, title="make all", rawInput={"command": "make all"}, status="in_progress"),
        rpc(method="session/cancel", params={"sessionId": "s"}),
        *lines,
    )


STOPPED = rpc(id=1, result={"stopReason": "cancelled"})


@pytest.mark.parametrize("reason", ["cancelled", "end_turn"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_command_that_the_client_stopped(status: str, late: bool, reason: str) -> None:
    ended = update(
        "tool_call_update", status=status, content=[{"type": "content", "content": {"type": "text", "text": "1"}}]
    )
    answered = rpc(id=1, result={"stopReason": reason})
    found = stopped(*((answered, ended) if late else (ended, answered)))
    assert [result.status for result in of(ToolResult, found)][-1] == "cancelled"
    assert (of(Turn, found)[-1].state, of(Turn, found)[-1].ended_by) == ("cancelled", "provider")


def test_a_command_that_ended_before_the_client_could_stop_it() -> None:
    ended = update("tool_call_update", status="completed", rawOutput={"stdout": "1", "exit_code": 0})
    assert [result.status for result in of(ToolResult, stopped(ended, STOPPED))] == ["completed"]


def test_a_file_was_read_before_the_client_could_stop_it() -> None:
    found = stopped(update("tool_call_update", status="completed"), STOPPED, tool="read")
    assert [result.status for result in of(ToolResult, found)] == ["completed"]


def test_the_next_prompt_is_not_stopped() -> None:
    again = rpc(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
    call = update("tool_call", toolCallId="b", kind="execute", title="make", rawInput={"command": "make"})
    ended = update("tool_call_update", toolCallId="b", status="completed")
    found = stopped(STOPPED, again, call, ended, rpc(id=2, result={"stopReason": "end_turn"}))
    assert [result.status for result in of(ToolResult, found)] == ["cancelled", "completed"]
    assert (of(Turn, found)[-1].state, of(Turn, found)[-1].ended_by) == ("completed", "provider")
