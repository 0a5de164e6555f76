"""Two sessions of one stream, or two subagents of one session, that use the same ids of calls and turns at the same
time: each keeps its calls, results and permissions. Models number their calls (`call_0`, `functions.shell:0`), and
neither sessions nor agents know anything of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest

from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Event, PermissionRequest, PermissionResponse, ToolCall, ToolResult, ToolUpdate
from tooltap.protocol.inputs import Direction
from tooltap.testing import Line, check_recording

ID, TURN = "call_0", "1"
AT = "2026-11-24T02:06:28.254Z"


class Wire(NamedTuple):
    """The lines of a session, by its id: its begin, a shell call `cat <session>`, the call's result, and its end."""

    begin: Callable[[str], list[dict[str, Any]]]
    call: Callable[[str], dict[str, Any]]
    result: Callable[[str], dict[str, Any]]
    end: Callable[[str], dict[str, Any]] | None = None


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
)


def _vibe(session: str, status: str, **state: Any) -> dict[str, Any]:
    detail = {"toolName": "file_system.bash", "kind": "shell", "input": {"command": f"cat {session}"}}
    head = {"id": "effect-0", "sessionId": session, "turnId": TURN, "createdAt": 1795338063801}
    told = {"type": "effect", "title": "file_system.bash", "detail": detail, "generationStatus": status}
    return {**head, **told, "state": {"status": status, **state}}


WIRES["vibe-json"] = Wire(
    lambda session: [],
    lambda session: _vibe(session, "running"),
    lambda session: _vibe(session, "completed", output={"stdout": f"text of {session}"}),
)


def _use(agent: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": ID, "name": "Bash", "input": {"command": f"cat {agent}"}}


def _result(agent: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ID, "content": f"text of {agent}"}


def _spawn(agent: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"task_{agent}", "name": "Task", "input": {"prompt": f"Be {agent}."}}


def _claude(kind: str, block: dict[str, Any], agent: str | None = None) -> dict[str, Any]:
    message = {"role": kind, "id": f"m_{agent}", "content": [block]}
    names = {"uuid": f"{kind}_{agent}", "session_id": "s", "parent_tool_use_id": agent and f"task_{agent}"}
    return {"type": kind, "message": message, **names, **({"agent_id": agent} if agent else {})}


def _transcript(kind: str, block: dict[str, Any], agent: str | None = None) -> dict[str, Any]:
    chain = {"parentUuid": None, "isSidechain": agent is not None, "sessionId": "s", "cwd": "/ws", "version": "2.1.330"}
    line = _claude(kind, block, agent)
    told = {key: line[key] for key in ("type", "message", "uuid")}
    return {**chain, **told, "timestamp": AT, **({"agentId": agent} if agent else {})}


def _legacy(line: dict[str, Any]) -> dict[str, Any]:
    return {"role": "agent", "content": {"type": "output", "data": line}, "meta": {"sentFrom": "cli", "source": "cli"}}


def _qwen(agent: str, kind: str, part: dict[str, Any], **more: Any) -> dict[str, Any]:
    head = {"uuid": f"{kind}_{agent}", "parentUuid": None, "sessionId": "s", "timestamp": AT, "version": "0.24.4"}
    message = {"role": "model" if kind == "assistant" else "user", "parts": [part]}
    return {**head, "type": kind, "agentId": agent, "isSidechain": True, "message": message, **more}


def _qwen_result(agent: str) -> dict[str, Any]:
    response = {"id": ID, "name": "run_shell_command", "response": {"output": f"text of {agent}"}}
    told = {"callId": ID, "status": "success", "resultDisplay": f"text of {agent}"}
    return _qwen(agent, "tool_result", {"functionResponse": response}, toolCallResult=told)


def _copilot(kind: str, agent: str | None, **data: Any) -> dict[str, Any]:
    return {"type": kind, "id": kind, "timestamp": AT, "data": data, **({"agentId": agent} if agent else {})}


def _kimi(kind: str, agent: str | None, **payload: Any) -> dict[str, Any]:
    event = {"type": kind, "payload": payload}
    if agent is None:
        return event
    told = {"parent_tool_call_id": f"task_{agent}", "agent_id": agent, "subagent_type": "coder", "event": event}
    return {"type": "SubagentEvent", "payload": told}


def _kimi_use(agent: str | None, call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    return _kimi("ToolCall", agent, type="function", id=call_id, function=function, extras=None)


def _kimi_result(agent: str) -> dict[str, Any]:
    value = {"is_error": False, "output": f"text of {agent}", "message": "", "display": [], "extras": None}
    return _kimi("ToolResult", agent, tool_call_id=ID, return_value=value)


def _kimi_in(wrap: Callable[[dict[str, Any]], dict[str, Any]], head: list[dict[str, Any]]) -> Wire:
    turn = wrap(_kimi("TurnBegin", None, user_input="Go."))
    return Wire(
        lambda agent: [*([*head, turn] if agent == "a" else []), wrap(_kimi_use(None, f"task_{agent}", "Task"))],
        lambda agent: wrap(_kimi_use(agent, ID, "Shell", command=f"cat {agent}")),
        lambda agent: wrap(_kimi_result(agent)),
    )


def _kimi_code(kind: str, agent: str, **more: Any) -> dict[str, Any]:
    told = {"type": kind, "toolCallId": ID, "uuid": "u", "turnId": "0", "step": 1, **more}
    return {"type": "context.append_loop_event", "agentId": agent, "time": 1795486123285, "event": told}


def _cline_hook(agent: str, parent: str | None) -> dict[str, Any]:
    names = {"agentId": agent, "taskId": "s" if parent is None else f"task of {agent}", "parentAgentId": parent}
    return {"ts": AT, "type": "hook_event", "hookEventName": "agent_start", **names}


def _cline(kind: str, agent: str, **more: Any) -> dict[str, Any]:
    told = {"type": kind, "contentType": "tool", "toolName": "run_commands", "toolCallId": ID, "agentId": agent, **more}
    return {"ts": AT, "type": "agent_event", "event": told}


def _acp_call(agent: str, update_type: str, **update: Any) -> dict[str, Any]:
    lineage = {"parentToolUseId": f"task_{agent}", "agentId": agent}
    return _update("s", update_type, _meta={"claudeCode": lineage}, **update)


_CLAUDE = Wire(
    lambda agent: [_claude("assistant", _spawn(agent))],
    lambda agent: _claude("assistant", _use(agent), agent),
    lambda agent: _claude("user", _result(agent), agent),
)

AGENTS = {
    "acp": Wire(
        lambda agent: [_update("s", "tool_call", kind="think", rawInput={"prompt": "Go."}, toolCallId=f"task_{agent}")],
        lambda agent: _acp_call(agent, "tool_call", kind="execute", rawInput={"command": f"cat {agent}"}),
        lambda agent: _acp_call(
            agent, "tool_call_update", status="completed", rawOutput={"output": f"text of {agent}"}
        ),
    ),
    "claude-stream": _CLAUDE,
    "claude-transcript": Wire(
        lambda agent: [_transcript("assistant", _spawn(agent))],
        lambda agent: _transcript("assistant", _use(agent), agent),
        lambda agent: _transcript("user", _result(agent), agent),
    ),
    "cline-json": Wire(
        lambda agent: [*([_cline_hook("root", None)] if agent == "a" else []), _cline_hook(agent, "root")],
        lambda agent: _cline("content_start", agent, input={"commands": [f"cat {agent}"]}),
        lambda agent: _cline(
            "content_end", agent, output=[{"query": f"cat {agent}", "result": f"text of {agent}", "success": True}]
        ),
    ),
    "copilot-json": Wire(
        lambda agent: [
            *([_copilot("session.start", None, sessionId="s")] if agent == "a" else []),
            _copilot("tool.execution_start", None, toolCallId=f"task_{agent}", toolName="task", arguments={}),
            _copilot("subagent.started", agent, toolCallId=f"task_{agent}", agentName="explore"),
        ],
        lambda agent: _copilot(
            "tool.execution_start", agent, toolCallId=ID, toolName="bash", arguments={"command": f"cat {agent}"}
        ),
        lambda agent: _copilot(
            "tool.execution_complete", agent, toolCallId=ID, success=True, result={"content": f"text of {agent}"}
        ),
    ),
    "kimi-json": _kimi_in(lambda event: {"jsonrpc": "2.0", "method": "event", "params": event}, []),
    "kimi-wire": _kimi_in(
        lambda event: {"timestamp": 1788000001.0, "message": event}, [{"type": "metadata", "protocol_version": "1.6"}]
    ),
    "kimi-session": Wire(
        lambda agent: [],
        lambda agent: _kimi_code("tool.call", agent, name="Bash", args={"command": f"cat {agent}"}),
        lambda agent: _kimi_code("tool.result", agent, result={"output": f"text of {agent}"}),
    ),
    "legacy": Wire(
        lambda agent: [_legacy(_transcript("assistant", _spawn(agent)))],
        lambda agent: _legacy(_transcript("assistant", _use(agent), agent)),
        lambda agent: _legacy(_transcript("user", _result(agent), agent)),
    ),
    "qwen-chat": Wire(
        lambda agent: [_qwen(agent, "user", {"text": "Go."})],
        lambda agent: _qwen(
            agent,
            "assistant",
            {"functionCall": {"id": ID, "name": "run_shell_command", "args": {"command": f"cat {agent}"}}},
        ),
        _qwen_result,
    ),
    "qwen-stream": _CLAUDE,
}
"""Dialects whose lines state an agent each, so that several subagents of one session run in one stream. Here `a` and
`b` are two of them."""

CANNOT = {
    "cline-session": "a document is one session, or what one subagent of it did: it says which at its top",
    "codex-exec": "a process has one thread, which only its first line names",
    "codex-rollout": "a file is one thread, which its first line names; those of subagents are files of their own",
    "continue-session": "a document is one session, which it names at its top",
    "copilot-history": "a document is one session, which it names at its top",
    "cursor-stream": "a process has one session, and its lines name no subagent",
    "display-tools": "the stream is that of one client of our own server, which numbers the calls",
    "droid-session": "a file is one session, which its first line names; those of subagents are files of their own",
    "droid-stream": "a process has one session, and its lines name no subagent",
    "gemini-chat": "a file is one session, or one subagent's chat, which its first line names",
    "gemini-stream": "a process has one session, which only its first line names, and prints no calls of subagents",
    "gptme-log": "a folder is one conversation, and its lines name none",
    "hooks": "they show no calls, and each question has an id that we made up",
    "langgraph": "its lines name neither a session nor a run",
    "mini-trajectory": "a document is one run",
    "openai-agents": "a stream is one run",
    "openai-chat": "the gateway makes a stream of each conversation: the API has no sessions",
    "openai-responses": "the gateway makes a stream of each conversation",
    "opencode-run": "a process prints one session, without those of subagents, and a call with its result in one line",
    "openhands-json": "a process has one conversation, which it names at its end",
    "openhands-session": "a folder is one conversation, which its state names",
    "pi-json": "a process has one session at a time, and its lines name none",
    "pi-session": "a file is one session, which its first line names",
    "pydantic-ai": "the runs of a conversation follow each other",
    "vibe-session": "a folder is one session, which its snapshot names",
}
"""Dialects whose streams hold one session and one agent, and why."""


def test_each_dialect_has_two_at_once_or_says_why_not() -> None:
    """A dialect that is added is its folder and its recordings, so that it need not be named here."""
    named = WIRES.keys() | AGENTS.keys()
    assert not named & CANNOT.keys()
    assert named | CANNOT.keys() <= builtin().keys()
    assert (len(named), len(CANNOT)) == (18, 25)


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
    if wire.end is not None:
        lines += map(wire.end, ("a", "b"))

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


@pytest.mark.parametrize("order", [*ORDERS.values(), ["call a", "call b", "result a", "result b"]], ids=" ".join)
@pytest.mark.parametrize("dialect", AGENTS)
def test_subagents_keep_their_calls(dialect: str, order: list[str]) -> None:
    wire = AGENTS[dialect]
    make = {"call": wire.call, "result": wire.result}
    lines = [line for agent in ("a", "b") for line in wire.begin(agent)]
    lines += [make[kind](agent) for kind, agent in map(str.split, order)]

    found = _read(dialect, [(line, None) for line in lines])

    called = {event.call_id: event for event in found if isinstance(event, ToolCall) and "command" in event.input}
    assert sorted((call.agent, call.input["command"], call.synthetic) for call in called.values()) == [
        ("a", "cat a", False),
        ("b", "cat b", False),
    ]
    ended = [event for event in found if isinstance(event, ToolResult) and event.call_id in called]
    assert sorted((one.agent, one.status, one.output["stdout"], one.synthetic) for one in ended) == [
        ("a", "completed", "text of a", False),
        ("b", "completed", "text of b", False),
    ]
    assert [called[one.call_id].agent for one in ended] == [one.agent for one in ended]
    assert len({event.session for event in found}) == 1


def test_subagents_may_do_the_same_under_one_id() -> None:
    """The call of the second one is no repetition of the first one's."""
    lines = [line for agent in ("a", "b") for line in _CLAUDE.begin(agent)]
    for agent in ("a", "b"):
        use = {"type": "tool_use", "id": ID, "name": "Bash", "input": {"command": "ls"}}
        lines += [_claude("assistant", use, agent), _claude("user", _result(agent), agent)]

    found = _read("claude-stream", [(line, None) for line in lines])

    ended = [event for event in found if isinstance(event, ToolResult) and not event.synthetic]
    assert [(one.agent, one.output["stdout"]) for one in ended] == [("a", "text of a"), ("b", "text of b")]


@pytest.mark.parametrize("dialect", ["claude-stream", "qwen-stream"])
def test_subagent_may_have_the_ids_of_the_agent_that_started_it(dialect: str) -> None:
    """Each agent begins to number its calls at 0. Both subagents have both ids, and each is below its own call."""
    ids, agents = ("call_0", "call_1"), ("a", "b")
    lines = [_claude("assistant", {**_spawn(agent), "id": call_id}) for agent, call_id in zip(agents, ids, strict=True)]
    for call_id in ids:
        for agent, spawner in zip(agents, ids, strict=True):
            of_agent = {"parent_tool_use_id": spawner, "uuid": f"{agent} {call_id}"}
            line = _claude("assistant", {**_use(agent), "id": call_id}, agent)
            lines.append({**line, "message": {**line["message"], "id": f"m {agent} {call_id}"}, **of_agent})
    for call_id in ids:
        for agent, spawner in zip(agents, ids, strict=True):
            line = _claude("user", {**_result(agent), "tool_use_id": call_id}, agent)
            lines.append({**line, "parent_tool_use_id": spawner, "uuid": f"result {agent} {call_id}"})
    lines += [
        _claude("user", {"type": "tool_result", "tool_use_id": call_id, "content": f"{agent} is done"})
        for agent, call_id in zip(agents, ids, strict=True)
    ]

    found = _read(dialect, [(line, None) for line in lines])

    calls = {event.call_id: event for event in found if isinstance(event, ToolCall)}
    spawned = {
        agent: next(one for one in calls.values() if one.name == "Task" and one.input["prompt"] == f"Be {agent}.")
        for agent in agents
    }
    own = [one for one in calls.values() if one.name == "Bash"]
    assert sorted((one.agent, one.input["command"]) for one in own) == [("a", "cat a")] * 2 + [("b", "cat b")] * 2
    assert all(one.parent == spawned[str(one.agent)].call_id for one in own)
    ended = {event.call_id: event for event in found if isinstance(event, ToolResult)}
    assert not any(one.synthetic for one in ended.values())
    assert {(one.agent, ended[one.call_id].output["stdout"]) for one in own} == {("a", "text of a"), ("b", "text of b")}
    assert len(ended) == 6
    assert all(ended[spawned[agent].call_id].parent is None for agent in agents)


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
