"""Call ids that providers reuse, in every kind of dialect: no call is lost, and none is emitted twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context, Limits
from tooltap.protocol.events import ToolCall, ToolResult
from tooltap.testing import Line, check_recording

ID = "call_0"


class Wire(NamedTuple):
    """Make the lines of a shell call and of its result. `nth` makes other ids unique, of a message for example."""

    call: Callable[[str, int], dict[str, Any]]
    result: Callable[[str, int], dict[str, Any]]


def _rollout(payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-11-21T20:45:17.403Z", "type": "response_item", "payload": payload}


def _codex_event(msg: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "codex/event", "params": {"_meta": {"threadId": "t"}, "id": "1", "msg": msg}}


def _acp(update_type: str, **fields: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "update": {"sessionUpdate": update_type, "toolCallId": ID, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _opencode(status: str, nth: int, **state: Any) -> dict[str, Any]:
    part = {"id": f"prt_{nth}", "messageID": "msg_1", "sessionID": "s", "type": "tool", "tool": "bash", "callID": ID}
    return {
        "type": "message.part.updated",
        "properties": {"sessionID": "s", "part": {**part, "state": {"status": status, **state}}, "time": 1},
    }


def _cline(**event: Any) -> dict[str, Any]:
    event = {"contentType": "tool", "toolCallId": ID, "toolName": "run_commands", **event}
    return {"ts": "2026-11-21T21:05:00.964Z", "type": "agent_event", "event": event}


def _happier(kind: str, **payload: Any) -> dict[str, Any]:
    head = {"v": 1, "ts": 1769335045695, "direction": "outbound", "sessionId": "s1", "protocol": "acp"}
    return {**head, "kind": kind, "provider": "opencode", "payload": {"type": kind, "callId": ID, **payload}}


def _claude_call(command: str, message: dict[str, Any]) -> dict[str, Any]:
    use = {"type": "tool_use", "id": ID, "name": "Bash", "input": {"command": command}}
    return {"type": "assistant", "session_id": "s", "message": {"role": "assistant", "content": [use], **message}}


def _claude_result(output: str, nth: int) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": ID, "content": output}
    return {"type": "user", "session_id": "s", "message": {"role": "user", "content": [block]}}


def _function(command: str) -> dict[str, Any]:
    return {"id": ID, "type": "function", "function": {"name": "Shell", "arguments": f'{{"command": "{command}"}}'}}


def _shell(command: str) -> dict[str, Any]:
    return {"command": command}


WIRES = {
    "claude-stream": Wire(lambda command, nth: _claude_call(command, {"id": f"msg_{nth}"}), _claude_result),
    "claude-stream, messages without ids": Wire(lambda command, nth: _claude_call(command, {}), _claude_result),
    "gemini-stream": Wire(
        lambda command, nth: {
            "type": "tool_use",
            "tool_id": ID,
            "tool_name": "run_shell_command",
            "parameters": _shell(command),
        },
        lambda output, nth: {"type": "tool_result", "tool_id": ID, "status": "success", "output": output},
    ),
    "codex-rollout": Wire(
        lambda command, nth: _rollout(
            {
                "type": "function_call",
                "call_id": ID,
                "name": "shell_command",
                "arguments": f'{{"command": "{command}"}}',
            }
        ),
        lambda output, nth: _rollout({"type": "function_call_output", "call_id": ID, "output": output}),
    ),
    "codex-mcp": Wire(
        lambda command, nth: _codex_event(
            {"type": "exec_command_begin", "call_id": ID, "command": ["bash", "-lc", command]}
        ),
        lambda output, nth: _codex_event(
            {"type": "exec_command_end", "call_id": ID, "stdout": output, "stderr": "", "exit_code": 0}
        ),
    ),
    "acp": Wire(
        lambda command, nth: _acp("tool_call", kind="execute", status="in_progress", rawInput=_shell(command)),
        lambda output, nth: _acp("tool_call_update", status="completed", rawOutput={"output": output}),
    ),
    "opencode-bus": Wire(
        lambda command, nth: _opencode("running", nth, input=_shell(command)),
        lambda output, nth: _opencode("completed", nth, input=_shell(f"echo {output}"), output=output, metadata={}),
    ),
    "kimi-json": Wire(
        lambda command, nth: {"role": "assistant", "content": [], "tool_calls": [_function(command)]},
        lambda output, nth: {"role": "tool", "tool_call_id": ID, "content": [{"type": "text", "text": output}]},
    ),
    "copilot-json": Wire(
        lambda command, nth: {
            "type": "tool.execution_start",
            "data": {"toolCallId": ID, "toolName": "bash", "arguments": _shell(command)},
        },
        lambda output, nth: {
            "type": "tool.execution_complete",
            "data": {"toolCallId": ID, "success": True, "result": {"content": output}},
        },
    ),
    "cline-json": Wire(
        lambda command, nth: _cline(type="content_start", input={"commands": [command]}),
        lambda output, nth: _cline(type="content_end", output=[{"query": "", "result": output, "success": True}]),
    ),
    "pi-json": Wire(
        lambda command, nth: {
            "type": "tool_execution_start",
            "toolCallId": ID,
            "toolName": "bash",
            "args": _shell(command),
        },
        lambda output, nth: {
            "type": "tool_execution_end",
            "toolCallId": ID,
            "toolName": "bash",
            "result": {"content": [{"type": "text", "text": output}]},
            "isError": False,
        },
    ),
    "happier-trace": Wire(
        lambda command, nth: _happier("tool-call", name="bash", input=_shell(command)),
        lambda output, nth: _happier("tool-result", output={"stdout": output}),
    ),
}

_RUNS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=1, max_size=3)
"""For each call: how often its line occurs, and how often that of its result."""


@pytest.mark.parametrize("name", WIRES)
@given(runs=_RUNS)
@settings(max_examples=10, deadline=None)
def test_reused_call_id_is_emitted_once_per_call(name: str, runs: list[tuple[int, int]]) -> None:
    wire, dialect = WIRES[name], name.partition(",")[0]
    lines = []
    for nth, (calls, results) in enumerate(runs):
        call, result = wire.call(f"echo {nth}", nth), wire.result(str(nth), nth)
        lines += [call, result, *[call] * (calls - 1), *[result] * (results - 1)]

    found = check_recording(dialect, [Line(orjson.dumps(line)) for line in lines])

    called = [event for event in found if isinstance(event, ToolCall)]
    ended = [event for event in found if isinstance(event, ToolResult)]
    turn = called[0].turn
    numbered = [ID, f"{ID}-2", f"{ID}-3"] if turn is None else [ID, f"{turn}/{ID}", f"{turn}/{ID}-2"]
    assert [(call.call_id, call.name, call.input["command"]) for call in called] == [
        (call_id, "Bash", f"echo {nth}") for nth, call_id in enumerate(numbered[: len(runs)])
    ]
    assert [(result.call_id, result.status, result.output["stdout"]) for result in ended] == [
        (call_id, "completed", str(nth)) for nth, call_id in enumerate(numbered[: len(runs)])
    ]


def test_same_call_in_next_turn_is_new() -> None:
    prompt = {"type": "message", "role": "user", "content": "again"}
    call, result = (make("ls", 0) for make in WIRES["gemini-stream"])
    done = {"type": "result", "status": "success"}

    found = check_recording("gemini-stream", [Line(orjson.dumps(line)) for line in [prompt, call, result, done] * 2])

    assert [event.call_id for event in found if isinstance(event, ToolCall)] == [ID, f"t2/{ID}"]
    assert [event.call_id for event in found if isinstance(event, ToolResult)] == [ID, f"t2/{ID}"]


def test_reused_ids_are_bounded() -> None:
    parser = Toy(Context(stream="s", limits=Limits(tombstones=8)))
    ids = []
    for _ in range(2_000):
        for line in ({"do": "call", "id": ID, "name": "X"}, {"do": "result", "id": ID}):
            ids += [item.call_id for item in emitted(parser.feed(orjson.dumps(line))[1]) if isinstance(item, ToolCall)]

    assert len(set(ids)) == 2_000
    assert (len(parser.state.calls.done), len(parser.state.calls.renamed)) == (8, 1)
