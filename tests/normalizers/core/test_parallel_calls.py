"""Two calls of one answer that have the same id, as some models and gateways give to parallel calls (nanobot #3943,
maka #1995): they are two, each with its own input and result. The results come in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.normalizers.reading import of
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import ToolCall, ToolResult
from tooltap.testing import Line, check_recording

ID = "call_0"
A, B = "cat a", "cat b"
TEXT = {A: "text of a", B: "text of b"}
SESSION = "c6b62c6f-0000-4000-8000-000000000001"
AT = "2026-11-24T02:06:28.254Z"


def claude(kind: str, block: dict[str, Any], **message: Any) -> dict[str, Any]:
    said = {"role": kind, "content": [block], **message}
    return {"type": kind, "message": said, "session_id": SESSION, "parent_tool_use_id": None, "uuid": "u"}


def claude_use(command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": ID, "name": "Bash", "input": {"command": command}}


def claude_result(command: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ID, "content": TEXT[command]}


def _claude_stream(results_between: bool = False) -> list[dict[str, Any]]:
    uses = [claude("assistant", claude_use(one), id="m1") for one in (A, B)]
    ended = [claude("user", claude_result(one)) for one in (A, B)]
    return [uses[0], ended[0], uses[1], ended[1]] if results_between else [*uses, *ended]


def _claude_transcript() -> list[dict[str, Any]]:
    chain = {"parentUuid": None, "isSidechain": False, "sessionId": SESSION, "cwd": "/ws", "version": "2.1.330"}
    lines = _claude_stream()
    return [{**chain, **line, "uuid": f"u{number}", "timestamp": AT} for number, line in enumerate(lines)]


def _qwen_chat() -> list[dict[str, Any]]:
    head = {"uuid": "q1", "parentUuid": None, "sessionId": SESSION, "timestamp": AT, "cwd": "/ws", "version": "0.24.4"}
    calls = [{"functionCall": {"id": ID, "name": "run_shell_command", "args": {"command": one}}} for one in (A, B)]

    def result(command: str) -> dict[str, Any]:
        response = {"id": ID, "name": "run_shell_command", "response": {"output": TEXT[command]}}
        message = {"role": "user", "parts": [{"functionResponse": response}]}
        told = {"callId": ID, "status": "success", "resultDisplay": TEXT[command]}
        return {**head, "uuid": command, "type": "tool_result", "message": message, "toolCallResult": told}

    return [{**head, "type": "assistant", "message": {"role": "model", "parts": calls}}, result(A), result(B)]


def _gemini_chat() -> list[dict[str, Any]]:
    def call(command: str) -> dict[str, Any]:
        response = {"id": ID, "name": "run_shell_command", "response": {"output": TEXT[command]}}
        given = {"id": ID, "name": "run_shell_command", "args": {"command": command}, "status": "success"}
        return {**given, "result": [{"functionResponse": response}], "timestamp": AT}

    message = {"id": "m1", "timestamp": AT, "type": "gemini", "content": "", "toolCalls": [call(A), call(B)]}
    return [{"sessionId": SESSION, "projectHash": "h", "startTime": AT, "lastUpdated": AT, "kind": "main"}, message]


def _gemini_stream() -> list[dict[str, Any]]:
    init = {"type": "init", "session_id": SESSION, "model": "m"}
    uses = [
        {"type": "tool_use", "tool_id": ID, "tool_name": "run_shell_command", "parameters": {"command": one}}
        for one in (A, B)
    ]
    ended = [{"type": "tool_result", "tool_id": ID, "status": "success", "output": TEXT[one]} for one in (A, B)]
    return [init, *uses, *ended]


def pi_message(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content), "stopReason": "toolUse", **more}


def pi_calls() -> dict[str, Any]:
    return pi_message(
        *({"type": "toolCall", "id": ID, "name": "bash", "arguments": {"command": one}} for one in (A, B))
    )


def pi_result(command: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": TEXT[command]}]}


def pi_result_message(command: str) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": ID, "toolName": "bash", "isError": False, **pi_result(command)}


def _pi_json() -> list[dict[str, Any]]:
    start = {"type": "tool_execution_start", "toolCallId": ID, "toolName": "bash"}
    end = {"type": "tool_execution_end", "toolCallId": ID, "toolName": "bash", "isError": False}
    return [
        {"type": "agent_start"},
        {"type": "message_end", "message": pi_calls()},
        *({**start, "args": {"command": one}} for one in (A, B)),
        {**end, "result": pi_result(A)},
        {"type": "message_end", "message": pi_result_message(A)},
        {**end, "result": pi_result(B)},
        {"type": "message_end", "message": pi_result_message(B)},
    ]


def _pi_session() -> list[dict[str, Any]]:
    head = {"type": "session", "version": 3, "id": SESSION, "timestamp": AT, "cwd": "/ws"}
    entries = [pi_calls(), pi_result_message(A), pi_result_message(B)]
    return [
        head,
        *(
            {"type": "message", "id": f"e{number}", "parentId": f"e{number - 1}", "timestamp": AT, "message": one}
            for number, one in enumerate(entries)
        ),
    ]


def kimi_use(command: str) -> dict[str, Any]:
    function = {"name": "Shell", "arguments": orjson.dumps({"command": command}).decode()}
    return {"type": "function", "id": ID, "function": function}


def _kimi_json() -> list[dict[str, Any]]:
    results = [{"role": "tool", "tool_call_id": ID, "content": [{"type": "text", "text": TEXT[one]}]} for one in (A, B)]
    return [{"role": "assistant", "content": [], "tool_calls": [kimi_use(A), kimi_use(B)]}, *results]


def _kimi_wire() -> list[dict[str, Any]]:
    def message(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": 1788000001.0, "message": {"type": kind, "payload": payload}}

    def result(command: str) -> dict[str, Any]:
        value = {"is_error": False, "output": TEXT[command], "message": "", "display": [], "extras": None}
        return message("ToolResult", {"tool_call_id": ID, "return_value": value})

    begin = message("TurnBegin", {"user_input": "Go."})
    return [
        {"type": "metadata", "protocol_version": "1.6"},
        begin,
        *(message("ToolCall", kimi_use(one)) for one in (A, B)),
        result(A),
        result(B),
    ]


def _kimi_session() -> list[dict[str, Any]]:
    def event(kind: str, **more: Any) -> dict[str, Any]:
        told = {"type": kind, "toolCallId": ID, "uuid": "u", "turnId": "0", "step": 1, **more}
        return {"type": "context.append_loop_event", "agentId": "main", "time": 1795486123285, "event": told}

    return [
        {"type": "metadata", "protocol_version": "1.5", "created_at": 1795486123273},
        *(event("tool.call", name="Bash", args={"command": one}) for one in (A, B)),
        *(event("tool.result", result={"output": TEXT[one]}) for one in (A, B)),
    ]


def _copilot_json() -> list[dict[str, Any]]:
    def line(kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "id": kind, "timestamp": AT, "parentId": None, "data": data}

    uses = [{"toolCallId": ID, "name": "bash", "arguments": {"command": one}} for one in (A, B)]
    return [
        line("assistant.turn_start", turnId="0"),
        line("assistant.message", messageId="m1", content="", toolRequests=uses),
        *(line("tool.execution_start", toolCallId=ID, toolName="bash", arguments={"command": one}) for one in (A, B)),
        *(
            line("tool.execution_complete", toolCallId=ID, success=True, result={"content": TEXT[one]})
            for one in (A, B)
        ),
    ]


def _copilot_history() -> list[dict[str, Any]]:
    def entry(kind: str, command: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "id": kind, "timestamp": AT, "callId": ID, "name": "bash", **more} | {
            "arguments": {"command": command}
        }

    done = [entry("tool_call_completed", one, result={"type": "success", "log": TEXT[one]}) for one in (A, B)]
    timeline = [entry("tool_call_requested", one) for one in (A, B)] + done
    return [{"sessionId": SESSION, "startTime": AT, "chatMessages": [], "timeline": timeline}]


def _cline_json() -> list[dict[str, Any]]:
    def event(kind: str, **more: Any) -> dict[str, Any]:
        told = {"type": kind, "contentType": "tool", "toolName": "run_commands", "toolCallId": ID, **more}
        return {"type": "agent_event", "ts": AT, "event": told}

    results = [[{"query": one, "result": TEXT[one], "success": True}] for one in (A, B)]
    return [
        *(event("content_start", input={"commands": [one]}) for one in (A, B)),
        *(event("content_end", output=one) for one in results),
    ]


def _cline_session() -> list[dict[str, Any]]:
    uses = [{"type": "tool_use", "id": ID, "name": "run_commands", "input": {"commands": [one]}} for one in (A, B)]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": ID,
            "content": [{"query": one, "result": TEXT[one], "success": True}],
        }
        for one in (A, B)
    ]
    messages = [
        {"id": "m1", "role": "assistant", "content": uses, "ts": 1},
        {"id": "m2", "role": "user", "content": results, "ts": 2},
    ]
    return [{"version": 1, "sessionId": SESSION, "updated_at": AT, "agent": "lead", "messages": messages}]


def _droid_session() -> list[dict[str, Any]]:
    def message(name: str, role: str, *content: dict[str, Any]) -> dict[str, Any]:
        told = {"role": role, "content": list(content)}
        return {"type": "message", "id": name, "timestamp": AT, "message": told, "parentId": None}

    uses = [{"type": "tool_use", "id": ID, "name": "Execute", "input": {"command": one}} for one in (A, B)]
    return [
        {"type": "session_start", "id": SESSION, "title": "t", "version": 2, "cwd": "/ws"},
        message("m1", "assistant", *uses),
        message("m2", "user", claude_result(A), claude_result(B)),
    ]


def _droid_stream() -> list[dict[str, Any]]:
    use = {"type": "tool_call", "id": ID, "messageId": "m", "toolId": "Execute", "toolName": "Execute", "timestamp": 1}
    end = {"type": "tool_result", "id": ID, "toolId": "Execute", "isError": False, "timestamp": 1}
    return [
        *({**use, "parameters": {"command": one}} for one in (A, B)),
        *({**end, "value": TEXT[one]} for one in (A, B)),
    ]


def _continue_session() -> list[dict[str, Any]]:
    def state(command: str) -> dict[str, Any]:
        function = {"name": "Bash", "arguments": orjson.dumps({"command": command}).decode()}
        call = {"id": ID, "type": "function", "function": function}
        told = {"toolCallId": ID, "toolCall": call, "status": "done", "parsedArgs": {"command": command}}
        return {**told, "output": [{"content": TEXT[command], "name": "", "description": ""}]}

    item = {"message": {"role": "assistant", "content": ""}, "contextItems": [], "toolCallStates": [state(A), state(B)]}
    return [{"sessionId": SESSION, "title": "t", "workspaceDirectory": "/ws", "history": [item]}]


def _opencode(wrap: Callable[[str, dict[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
    def part(command: str, status: str, **state: Any) -> dict[str, Any]:
        names = {"id": f"prt_{command[-1]}", "messageID": "msg_1", "sessionID": SESSION, "callID": ID}
        told = {**names, "type": "tool", "tool": "bash"}
        return wrap(command, {**told, "state": {"status": status, "input": {"command": command}, **state}})

    done = [part(one, "completed", output=TEXT[one], metadata={"exit": 0}) for one in (A, B)]
    return [part(A, "running"), part(B, "running"), done[1], done[0]]


def _opencode_bus() -> list[dict[str, Any]]:
    def wrap(command: str, part: dict[str, Any]) -> dict[str, Any]:
        return {"type": "message.part.updated", "properties": {"sessionID": SESSION, "part": part, "time": 1}}

    return _opencode(wrap)


def _opencode_db() -> list[dict[str, Any]]:
    def wrap(command: str, part: dict[str, Any]) -> dict[str, Any]:
        data = {"sessionID": SESSION, "part": part, "time": 1}
        return {"id": "e", "aggregate_id": SESSION, "seq": 0, "type": "message.part.updated.1", "data": data}

    return _opencode(wrap)


def _opencode_run() -> list[dict[str, Any]]:
    def wrap(command: str, part: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool_use", "timestamp": 1795294744545, "sessionID": SESSION, "part": part}

    return _opencode(wrap)[2:]


def _codex_rollout() -> list[dict[str, Any]]:
    def item(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": AT, "type": "response_item", "payload": {"type": kind, "call_id": ID, **payload}}

    calls = [orjson.dumps({"cmd": one}).decode() for one in (A, B)]
    return [
        {"timestamp": AT, "type": "session_meta", "payload": {"id": SESSION, "cwd": "/ws", "cli_version": "0.171.0"}},
        *(item("function_call", name="exec_command", arguments=one) for one in calls),
        *(item("function_call_output", output=TEXT[one]) for one in (A, B)),
    ]


def _cursor_stream() -> list[dict[str, Any]]:
    def line(subtype: str, command: str, **more: Any) -> dict[str, Any]:
        call = {"shellToolCall": {"args": {"command": command}, **more}}
        return {"type": "tool_call", "subtype": subtype, "call_id": ID, "tool_call": call, "session_id": SESSION}

    return [
        line("started", A),
        line("started", B),
        *(line("completed", one, result={"success": {"stdout": TEXT[one], "exitCode": 0}}) for one in (A, B)),
    ]


def _openai_chat() -> list[dict[str, Any]]:
    uses = [{**kimi_use(one), "function": {**kimi_use(one)["function"], "name": "bash"}} for one in (A, B)]
    answer = {"role": "assistant", "content": None, "tool_calls": uses}
    asked = {"role": "user", "content": "Go."}
    results = [{"role": "tool", "tool_call_id": ID, "content": TEXT[one]} for one in (A, B)]
    return [
        {"model": "m", "messages": [asked]},
        {"id": "c", "object": "chat.completion", "choices": [{"message": answer, "finish_reason": "tool_calls"}]},
        {"model": "m", "messages": [asked, answer, *results]},
    ]


def _openai_responses() -> list[dict[str, Any]]:
    calls = [
        {"type": "function_call", "call_id": ID, "name": "bash", "arguments": orjson.dumps({"command": one}).decode()}
        for one in (A, B)
    ]
    results = [{"type": "function_call_output", "call_id": ID, "output": TEXT[one]} for one in (A, B)]
    return [
        {"model": "m", "input": "Go."},
        {"object": "response", "id": "r1", "status": "completed", "model": "m", "output": calls},
        {"model": "m", "input": results, "previous_response_id": "r1"},
    ]


WIRES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "claude-stream": _claude_stream,
    "claude-transcript": _claude_transcript,
    "cline-json": _cline_json,
    "cline-session": _cline_session,
    "codex-rollout": _codex_rollout,
    "continue-session": _continue_session,
    "copilot-history": _copilot_history,
    "copilot-json": _copilot_json,
    "cursor-stream": _cursor_stream,
    "droid-session": _droid_session,
    "droid-stream": _droid_stream,
    "gemini-chat": _gemini_chat,
    "gemini-stream": _gemini_stream,
    "kimi-json": _kimi_json,
    "kimi-session": _kimi_session,
    "kimi-wire": _kimi_wire,
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
    "opencode-bus": _opencode_bus,
    "opencode-db": _opencode_db,
    "opencode-run": _opencode_run,
    "pi-json": _pi_json,
    "pi-session": _pi_session,
    "qwen-chat": _qwen_chat,
    "qwen-stream": _claude_stream,
}

CANNOT_TELL = {
    "acp": "a second `tool_call` of an id that is open is an update of it, and updates have the id alone",
    "codex-app-server": "Codex gives each item an id of its own, and the model's ids are not on the wire",
    "codex-exec": "Codex gives each item an id of its own, and the model's ids are not on the wire",
    "codex-mcp": "several events show one call, each in another form, and have nothing but the id in common",
    "display-tools": "tooltap's own server numbers the calls",
    "happier-trace": "several events show one call, and have nothing but the id in common",
    "hooks": "they show no calls",
    "legacy": "several messages show one call, and have nothing but the id in common",
    "tooltap-trace": "it holds lines of the other dialects, which their parsers read",
    "vibe-json": "Vibe gives each entry an id of its own, and the model's ids are not on the wire",
    "vibe-session": "Vibe gives each entry an id of its own, and the model's ids are not on the wire",
}
"""Dialects whose lines do not tell parallel calls of one id apart, or cannot have them, and why."""


def _read(dialect: str, lines: list[dict[str, Any]]) -> tuple[list[ToolCall], list[ToolResult]]:
    found = check_recording(dialect, [Line(orjson.dumps(line)) for line in lines])
    return of(ToolCall, found), of(ToolResult, found)


def test_each_dialect_tells_them_apart_or_says_why_not() -> None:
    """A dialect that is added is its folder and its recordings, so that it need not be named here."""
    named = WIRES.keys() | CANNOT_TELL.keys()
    assert named <= builtin().keys()
    assert (len(WIRES), len(CANNOT_TELL)) == (25, 11)
    assert not WIRES.keys() & CANNOT_TELL.keys()


@pytest.mark.parametrize("dialect", WIRES)
def test_parallel_calls_of_one_id_are_two(dialect: str) -> None:
    calls, results = _read(dialect, WIRES[dialect]())

    ids = [call.call_id for call in calls]
    assert len(set(ids)) == 2
    assert [call.input["command"] for call in calls] in ([A, B], [B, A])
    command_of = {call.call_id: call.input["command"] for call in calls}
    assert not any(one.synthetic for one in (*calls, *results))
    assert {command_of[one.call_id]: one.output["stdout"] for one in results} == TEXT
    assert [one.status for one in results] == ["completed"] * 2


def test_call_whose_result_comes_before_the_next_one_is_shown_is_another() -> None:
    """Claude Code runs a tool while the rest of the message is still coming."""
    calls, results = _read("claude-stream", _claude_stream(results_between=True))

    assert [call.input["command"] for call in calls] == [A, B]
    assert [one.output["stdout"] for one in results] == [TEXT[A], TEXT[B]]


@pytest.mark.parametrize("dialect", ["claude-stream", "claude-transcript", "qwen-stream"])
def test_message_that_is_written_twice_has_its_calls_once(dialect: str) -> None:
    """Behind some proxies: first without its tokens, then with them."""
    lines = WIRES[dialect]()
    again = [{**line, "uuid": f"again{number}"} for number, line in enumerate(lines[:2])]
    calls, results = _read(dialect, [*lines[:2], *again, *lines[2:], *again])

    assert [call.input["command"] for call in calls] == [A, B]
    assert len(results) == 2


def test_more_calls_of_one_id_than_are_compared_close_the_oldest() -> None:
    """Each line of one is compared with all of them."""
    normalizer = StreamNormalizer(Context(stream="s", limits=Limits(shared_ids=2)), "claude-stream")
    blocks = [claude_use(f"cat {number}") for number in range(3)]
    line = claude("assistant", blocks[0], id="m1", content=blocks)
    events = [one.event for one in normalizer.feed(orjson.dumps(line)) if isinstance(one, Produced)]
    closed = [event.call_id for event in events if isinstance(event, ToolResult) and event.status == "interrupted"]
    assert closed == [event.call_id for event in events if isinstance(event, ToolCall)][:1]
