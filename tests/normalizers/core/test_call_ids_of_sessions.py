"""Two sessions of one connection that use the same ids of calls and turns at the same time: each keeps its calls,
results and permissions. Models number their calls (`call_0`, `functions.shell:0`), and sessions know nothing of each
other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest

from tooltap.protocol.events import Event, PermissionRequest, PermissionResponse, ToolCall, ToolResult, ToolUpdate
from tooltap.protocol.inputs import Direction
from tooltap.testing import Line, check_recording

ID, TURN = "call_0", "1"


class Wire(NamedTuple):
    """The lines of a session, by its id: its begin, a shell call `cat <session>`, the call's result, and its end."""

    begin: Callable[[str], list[dict[str, Any]]]
    call: Callable[[str], dict[str, Any]]
    result: Callable[[str], dict[str, Any]]
    end: Callable[[str], dict[str, Any]]


def _codex_event(session: str, kind: str, **msg: Any) -> dict[str, Any]:
    params = {"_meta": {"threadId": session}, "id": TURN, "msg": {"type": kind, **msg}}
    return {"jsonrpc": "2.0", "method": "codex/event", "params": params}


def _app_server(session: str, method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": session, "turnId": TURN, **params}}


def _command(session: str, status: str, **item: Any) -> dict[str, Any]:
    kind = {"type": "commandExecution", "id": ID, "command": f"cat {session}", "cwd": "/w", "status": status}
    return {"item": {**kind, "commandActions": [], **item}}


def _update(session: str, update_type: str, **update: Any) -> dict[str, Any]:
    params = {"sessionId": session, "update": {"sessionUpdate": update_type, "toolCallId": ID, **update}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _part(session: str, status: str, **state: Any) -> dict[str, Any]:
    names = {"id": f"prt_{session}", "messageID": f"msg_{session}", "sessionID": session, "callID": ID}
    given = {"status": status, "input": {"command": f"cat {session}"}, **state}
    part = {**names, "type": "tool", "tool": "bash", "state": given}
    return {"type": "message.part.updated", "properties": {"sessionID": session, "part": part, "time": 1}}


def _event(session: str, kind: str, **data: Any) -> dict[str, Any]:
    return {"id": "e", "aggregate_id": session, "seq": 0, "type": kind, "data": {"sessionID": session, **data}}


def _stored(session: str, line: dict[str, Any]) -> dict[str, Any]:
    return _event(session, f"{line['type']}.1", **line["properties"])


def _traced(session: str, number: int, line: dict[str, Any]) -> dict[str, Any]:
    head = {"v": 1, "t": 1795293851548, "stream": f"run-{session}", "dialect": "acp", "provider": "acp", "n": number}
    return {**head, "line": orjson.dumps(line).decode()}


def _happier(session: str, kind: str, **payload: Any) -> dict[str, Any]:
    head = {"v": 1, "ts": 1769335045695, "direction": "outbound", "sessionId": session, "protocol": "acp"}
    return {**head, "kind": kind, "provider": "opencode", "payload": {"type": kind, "callId": ID, **payload}}


WIRES = {
    "acp": Wire(
        lambda session: [],
        lambda session: _update(
            session, "tool_call", kind="execute", status="in_progress", rawInput={"command": f"cat {session}"}
        ),
        lambda session: _update(
            session, "tool_call_update", status="completed", rawOutput={"output": f"text of {session}"}
        ),
        lambda session: _update(session, "agent_message_chunk", content={"type": "text", "text": "Done."}),
    ),
    "codex-app-server": Wire(
        lambda session: [
            {"method": "thread/started", "params": {"thread": {"id": session}}},
            {"method": "turn/started", "params": {"threadId": session, "turn": {"id": TURN}}},
        ],
        lambda session: _app_server(session, "item/started", **_command(session, "inProgress")),
        lambda session: _app_server(
            session,
            "item/completed",
            **_command(session, "completed", aggregatedOutput=f"text of {session}", exitCode=0),
        ),
        lambda session: _app_server(session, "turn/completed", turn={"id": TURN, "status": "completed", "items": []}),
    ),
    "codex-mcp": Wire(
        lambda session: [
            _codex_event(session, "session_configured", session_id=session, model="m"),
            _codex_event(session, "task_started", turn_id=TURN),
        ],
        lambda session: _codex_event(session, "exec_command_begin", call_id=ID, command=["cat", session], cwd="/w"),
        lambda session: _codex_event(
            session, "exec_command_end", call_id=ID, stdout=f"text of {session}", stderr="", exit_code=0
        ),
        lambda session: _codex_event(session, "task_complete", turn_id=TURN),
    ),
    "happier-trace": Wire(
        lambda session: [],
        lambda session: _happier(session, "tool-call", name="bash", input={"command": f"cat {session}"}),
        lambda session: _happier(session, "tool-result", output={"stdout": f"text of {session}"}),
        lambda session: _happier(session, "task_complete", id="t"),
    ),
    "opencode-db": Wire(
        lambda session: [_event(session, "session.created.1", info={"id": session})],
        lambda session: _stored(session, _part(session, "running")),
        lambda session: _stored(
            session, _part(session, "completed", output=f"text of {session}", metadata={"exit": 0})
        ),
        lambda session: _event(session, "session.updated.1", info={"id": session}),
    ),
    "opencode-bus": Wire(
        lambda session: [
            {"type": "session.created", "properties": {"sessionID": session, "info": {"id": session}}},
        ],
        lambda session: _part(session, "running"),
        lambda session: _part(session, "completed", output=f"text of {session}", metadata={"exit": 0}),
        lambda session: {"type": "session.idle", "properties": {"sessionID": session}},
    ),
}
"""Dialects whose lines state a session each, so that several run over one connection."""

WIRES["tooltap-trace"] = Wire(
    lambda session: [],
    lambda session: _traced(session, 1, WIRES["acp"].call(session)),
    lambda session: _traced(session, 2, WIRES["acp"].result(session)),
    lambda session: _traced(session, 3, WIRES["acp"].end(session)),
)

ORDERS = {
    "opened together": ["call a", "call b", "result b", "result a"],
    "one after the other": ["call a", "result a", "call b", "result b"],
    "the first ends last": ["call b", "call a", "result b", "result a"],
}


def _read(dialect: str, lines: list[tuple[dict[str, Any], Direction | None]]) -> list[Event]:
    return check_recording(dialect, [Line(orjson.dumps(line), direction=direction) for line, direction in lines])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dialect", WIRES)
def test_sessions_keep_their_calls(dialect: str, order: str) -> None:
    wire = WIRES[dialect]
    make = {"call": wire.call, "result": wire.result}
    lines = [line for session in ("a", "b") for line in wire.begin(session)]
    lines += [make[kind](session) for kind, session in map(str.split, ORDERS[order])]
    lines += [wire.end(session) for session in ("a", "b")]

    found = _read(dialect, [(line, None) for line in lines])

    called = {event.call_id: event for event in found if isinstance(event, ToolCall)}
    assert sorted((call.session, call.input["command"]) for call in called.values()) == [
        ("a", "cat a"),
        ("b", "cat b"),
    ]
    assert not any(event.synthetic for event in found if isinstance(event, ToolCall | ToolResult))
    ended = [event for event in found if isinstance(event, ToolResult)]
    assert sorted((one.session, one.status, one.output["stdout"]) for one in ended) == [
        ("a", "completed", "text of a"),
        ("b", "completed", "text of b"),
    ]
    assert [called[one.call_id].session for one in ended] == [one.session for one in ended]


def test_call_that_ends_with_the_stream_keeps_its_output() -> None:
    deltas = [
        _app_server(session, "item/commandExecution/outputDelta", itemId=ID, delta=f"text of {session}")
        for session in ("a", "b")
    ]
    wire = WIRES["codex-app-server"]
    lines = [*wire.begin("a"), *wire.begin("b"), wire.call("a"), wire.call("b"), *deltas]

    found = _read("codex-app-server", [(line, None) for line in lines])

    ended = [event for event in found if isinstance(event, ToolResult)]
    assert [(one.session, one.status, one.output["stdout"]) for one in ended] == [
        ("a", "interrupted", "text of a"),
        ("b", "interrupted", "text of b"),
    ]


def test_sessions_keep_their_background_processes() -> None:
    """Both commands run as process 7; that of the first session is the one that ends."""

    def raw(session: str, kind: str, call_id: str, **item: Any) -> dict[str, Any]:
        return _codex_event(session, "raw_response_item", item={"type": kind, "call_id": call_id, **item})

    head = "Chunk ID: a\nWall time: 1.0 seconds\nProcess "
    lines = [line for session in ("a", "b") for line in WIRES["codex-mcp"].begin(session)]
    for session in ("a", "b"):
        lines += [
            raw(session, "function_call", ID, name="exec_command", arguments='{"cmd": "slow"}'),
            raw(session, "function_call_output", ID, output=f"{head}running with session ID 7\nOutput:\nhalf\n"),
        ]
    lines += [
        raw("a", "function_call", "poll", name="write_stdin", arguments='{"session_id": 7, "chars": ""}'),
        raw("a", "function_call_output", "poll", output=f"{head}exited with code 3\nOutput:\nall\n"),
        raw("a", "message", "", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
    ]

    found = _read("codex-mcp", [(line, None) for line in lines])

    ended = [event for event in found if isinstance(event, ToolResult) and event.final]
    assert [(one.session, one.status, one.output.get("exit_code")) for one in ended] == [
        ("a", "failed", 3),
        ("b", "interrupted", None),
    ]


def _asked(dialect: str, session: str, number: int) -> dict[str, Any]:
    if dialect == "codex-app-server":
        asked = _app_server(session, "item/commandExecution/requestApproval", itemId=ID, command=f"cat {session}")
        return {**asked, "id": number}
    params = {"threadId": session, "codex_elicitation": "exec-approval", "codex_call_id": ID, "message": "Run it?"}
    given = {"codex_event_id": TURN, "codex_command": ["cat", session], "codex_cwd": "/w"}
    return {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {**params, **given}}


@pytest.mark.parametrize(
    ("dialect", "yes", "no"),
    [("codex-app-server", "accept", "decline"), ("codex-mcp", "approved", "denied")],
)
def test_sessions_keep_their_permissions(dialect: str, yes: str, no: str) -> None:
    wire = WIRES[dialect]
    agents = [*wire.begin("a"), *wire.begin("b"), wire.call("a"), wire.call("b")]
    agents += [_asked(dialect, "a", 10), _asked(dialect, "b", 11)]
    answers = [{"jsonrpc": "2.0", "id": 10 + n, "result": {"decision": given}} for n, given in enumerate((no, yes))]

    found = _read(dialect, [*((line, "out") for line in agents), *((line, "in") for line in answers)])

    session_of = {event.call_id: event.session for event in found if isinstance(event, ToolCall)}
    asked = {event.permission_id: event for event in found if isinstance(event, PermissionRequest)}
    assert [(one.session, session_of[str(one.call_id)]) for one in asked.values()] == [("a", "a"), ("b", "b")]
    answered = [event for event in found if isinstance(event, PermissionResponse)]
    assert [(one.session, one.outcome, asked[one.permission_id].session) for one in answered] == [
        ("a", "denied", "a"),
        ("b", "allowed", "b"),
    ]
    waiting = [(event.session, event.status) for event in found if isinstance(event, ToolUpdate) and event.status]
    assert waiting == [
        ("a", "awaiting-permission"),
        ("b", "awaiting-permission"),
        ("b", "running"),
    ]
