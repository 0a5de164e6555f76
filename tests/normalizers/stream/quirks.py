"""Quirks found in public recordings, which break parsers written from documentation: the smallest stream of each.

The streams are written by hand in the shape that was found. `test_quirk_snapshots.py` holds the events of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.normalizers.dialects.claude import helpers as claude
from tests.normalizers.dialects.claude.helpers import assistant, init, result, text, tool_result, use, user
from tests.normalizers.stream.lines import (
    TIME,
    claude_lines,
    codex_function,
    codex_output,
    codex_prompt,
    exec_item,
    gemini_line,
    openai_chunk,
    rollout,
)

__all__ = ["QUIRKS", "Quirk"]


class Quirk(NamedTuple):
    dialect: str
    data: bytes


def _stream(dialect: str, *lines: Any, end: bytes = b"\n") -> Quirk:
    """Lines as bytes, or objects to encode."""
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return Quirk(dialect, b"\n".join(encoded) + end)


def _print(*lines: dict[str, Any]) -> Quirk:
    """A stream of `claude -p --output-format stream-json`."""
    return _stream("claude-stream", *claude_lines(*lines))


def _function(name: str, call_id: str, output: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """A call of Codex and its output."""
    yield codex_function(name, call_id, **arguments)
    yield codex_output(call_id, output)


def _entry(kind: str, uuid: str = "u", **keys: Any) -> dict[str, Any]:
    chain = {"parentUuid": None, "isSidechain": False, "sessionId": claude.SESSION, "uuid": uuid, "version": "2.1.0"}
    return {**chain, "timestamp": TIME, "type": kind, **keys}


def _transcribed(line: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A line of the stream in the form of the transcript."""
    return _entry(line["type"], message=line["message"], **keys)


def _rpc(method: str, request_id: int | None = None, **params: Any) -> dict[str, Any]:
    identified = {} if request_id is None else {"id": request_id}
    return {"jsonrpc": "2.0", **identified, "method": method, "params": {"sessionId": "s-1", **params}}


def _update(update_type: str, /, **fields: Any) -> dict[str, Any]:
    return _rpc("session/update", update={"sessionUpdate": update_type, **fields})


def _answer(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "choices": [choice]}


def _called(call_id: str | None, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    named = {} if call_id is None else {"id": call_id}
    return {**named, **more, "type": "function", "function": {"name": name, "arguments": arguments}}


_TORN = (
    json.dumps(_transcribed(assistant(text("Hello.")))).encode()
    + json.dumps({"type": "summary", "summary": "Greeting", "leafUuid": "u"}).encode()
)
_NESTED = {
    "type": "assistant",
    "message": assistant(use("toolu_in", "Read", file_path="/ws/a"))["message"],
    "uuid": "n",
}
_READ = _update("tool_call", toolCallId="read-1", title="a.txt", kind="read", status="pending")
_STARTED_UP = {
    "method": "codex/event/mcp_startup_complete",
    "params": {"id": "", "msg": {"type": "mcp_startup_complete"}},
}
_WRITING = {"toolCallId": "w", "title": "Writing a", "kind": "edit"}
_EXEC = {"call_id": "c", "type": "exec_command_begin", "command": ["bash", "-lc", "ls"]}
_LISTED = {"aggregated_output": "x\n", "exit_code": 0}
_JSON_OUTPUT = json.dumps({"output": "a\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}})
_PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}

QUIRKS: dict[str, Quirk] = {
    "01 two objects torn onto one line": _stream("claude-transcript", _TORN),
    "02 a title before the stream": _stream(
        "codex-app-server",
        b"# App-server events log",
        b"",
        {"method": "thread/started", "params": {"thread": {"id": "t"}}},
    ),
    "02 a sentinel after the stream": _stream("openai-chat", _answer(content="4"), b"data: [DONE]", b"[DONE]"),
    "03 no newline at the end": _stream("kimi-json", {"role": "assistant", "content": "Bye."}, end=b""),
    "04 an enormous line": _print(
        init(), assistant(use("a", "Bash", command="x")), user(tool_result("a", "y" * 1_250_000))
    ),
    "05 escapes, NUL, CRLF and a byte order mark": _stream(
        "gemini-stream",
        b"\xef\xbb\xbf" + json.dumps(gemini_line("init", session_id="g", model="m")).encode() + b"\r",
        gemini_line("message", role="assistant", content="\x1b[31mred\x1b[0m\x00"),
    ),
    "06 results out of order": _print(
        init(),
        assistant(use("a", "Bash", command="first"), use("b", "Bash", command="second")),
        user(tool_result("b", "2")),
        user(tool_result("a", "1")),
    ),
    "07 a message split over lines": _print(
        init(), *(assistant(text(word), message_id="msg_1", usage={"output_tokens": 1}) for word in ("One.", "Two."))
    ),
    "08 a subagent inside progress lines": _stream(
        "claude-transcript",
        _transcribed(assistant(use("toolu_task", "Task", prompt="look"))),
        _entry(
            "progress",
            "p1",
            data={"type": "agent_progress", "message": _NESTED, "prompt": "look", "agentId": "a1"},
            parentToolUseID="toolu_task",
            toolUseID="agent_msg_1",
        ),
    ),
    "08 a subagent between the lines": _stream(
        "claude-transcript",
        _transcribed(assistant(use("toolu_task", "Task", prompt="look"))),
        _transcribed(
            assistant(use("toolu_in", "Read", file_path="/ws/a"), message_id="msg_2"), uuid="v", isSidechain=True
        ),
    ),
    "09 a call without a result, a result without a call": _stream(
        "claude-transcript",
        _transcribed(user(tool_result("toolu_before", "text"))),
        _transcribed(assistant(use("toolu_after", "Bash", command="ls")), uuid="v"),
    ),
    "10 ids of other vendors": _print(
        init(), assistant(use("call_9f86d081", "Bash", command="ls")), user(tool_result("call_9f86d081", "a"))
    ),
    "11 ids that start again with each turn": _stream(
        "codex-exec",
        *(
            line
            for command in ("one", "two")
            for line in (
                {"type": "turn.started"},
                exec_item("item_0", "command_execution", command=command, aggregated_output="", exit_code=0),
                {"type": "turn.completed", "usage": {}},
            )
        ),
    ),
    "12 a permission before its call": _stream(
        "acp",
        _rpc(
            "session/request_permission",
            0,
            toolCall={"toolCallId": "w", "title": "Writing a", "kind": "edit"},
            options=[],
        ),
        _update("tool_call_update", toolCallId="w", status="completed", content=[]),
    ),
    "13 only one side of a connection": _stream(
        "acp",
        _rpc("fs/read_text_file", 0, path="/ws/a"),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 2, "result": None},
    ),
    "14 one command in two protocols": _stream(
        "codex-app-server",
        _STARTED_UP,
        {"method": "codex/event/exec_command_begin", "params": {"id": "0", "conversationId": "t", "msg": _EXEC}},
        {
            "method": "item/started",
            "params": {
                "threadId": "t",
                "turnId": "0",
                "item": {"type": "commandExecution", "id": "c", "command": "ls", "status": "inProgress"},
            },
        },
        {
            "method": "codex/event/exec_command_output_delta",
            "params": {"id": "0", "msg": {"type": "exec_command_output_delta", "call_id": "c", "chunk": "eAo="}},
        },
        {
            "method": "codex/event/exec_command_end",
            "params": {"id": "0", "msg": {"type": "exec_command_end", "call_id": "c", **_LISTED}},
        },
    ),
    "15 a result without content": _stream(
        "gemini-stream",
        gemini_line("tool_use", tool_name="write_file", tool_id="w", parameters={"file_path": "a", "content": "x"}),
        gemini_line("tool_result", tool_id="w", status="success"),
        gemini_line("tool_use", tool_name="read_file", tool_id="r", parameters={"file_path": "a"}),
        gemini_line("tool_result", tool_id="r", status="success", output=""),
    ),
    "16 results that are arrays": _print(
        init(),
        assistant(use("a", "Read", file_path="a.png"), use("b", "ToolSearch", query="web")),
        user(tool_result("a", [text("A dot."), _PNG])),
        user(tool_result("b", [{"type": "tool_reference", "tool_name": "WebFetch"}])),
    ),
    "16 a completed read with empty content": _stream(
        "acp", _READ, _update("tool_call_update", toolCallId="read-1", status="completed", content=[])
    ),
    "17 a twin that is an object, a string, an array": _stream(
        "claude-transcript",
        _transcribed(assistant(*(use(name, "Bash", command=name) for name in "abc"))),
        _transcribed(
            user(tool_result("a", "1")), uuid="v", toolUseResult={"stdout": "1", "stderr": "", "interrupted": False}
        ),
        _transcribed(user(tool_result("b", "no", is_error=True)), uuid="w", toolUseResult="Error: no"),
        _transcribed(user(tool_result("c", [text("2")])), uuid="x", toolUseResult=[text("2")]),
    ),
    "18 result text by version": _stream(
        "codex-rollout",
        codex_prompt(),
        *_function("shell", "a", _JSON_OUTPUT, command=["bash", "-lc", "ls"]),
        *_function("shell", "b", "exec command rejected by user", command=["rm"]),
        *_function("shell_command", "c", "Exit code: 2\nWall time: 0 seconds\nOutput:\nno\n", command="ls x"),
        *_function(
            "exec_command",
            "d",
            "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\na\n",
            cmd="ls",
        ),
    ),
    "19 a command that is an array, a string, under another name": _stream(
        "codex-rollout",
        codex_prompt(),
        *_function("shell", "a", _JSON_OUTPUT, command=["bash", "-lc", "ls -a"]),
        *_function("shell_command", "b", _JSON_OUTPUT, command="ls -a"),
        *_function("exec_command", "c", _JSON_OUTPUT, cmd="ls -a"),
    ),
    "19 a command that is shell-quoted": _stream(
        "codex-exec",
        exec_item("item_0", "command_execution", command="/bin/zsh -lc 'ls -a'", aggregated_output="", exit_code=0),
    ),
    "20 a call and its result in one item, and unknown kinds": _stream(
        "codex-exec",
        exec_item("item_0", "web_search", query="rust"),
        exec_item("item_1", "file_change", changes=[{"path": "a", "kind": "add"}], status="completed"),
        exec_item("item_2", "tool_call", name="ship_it", status="completed"),
        exec_item("item_3", "future_item", foo="bar"),
        {"type": "turn.rate_limited", "retry_after_ms": 5},
    ),
    "21 snapshots, an aborted turn, a repeated head": _stream(
        "codex-rollout",
        rollout("session_meta", id="t-1", cwd="/ws"),
        rollout("session_meta", id="t-1", cwd="/ws"),
        codex_prompt(),
        rollout("response_item", type="ghost_snapshot", ghost_commit={"id": "1"}),
        rollout("event_msg", type="turn_aborted", reason="interrupted"),
    ),
    "22 an empty input": _print(init(), assistant(use("a", "EnterPlanMode"), use("b", "TaskList"))),
    "22 no input": _stream("acp", _update("tool_call", toolCallId="t", title="Think", kind="think", status="pending")),
    "23 an error that names an object": _stream(
        "acp",
        _update("tool_call", toolCallId="f", title="Fetch", kind="fetch", status="pending"),
        _update(
            "tool_call_update",
            toolCallId="f",
            status="failed",
            content=[{"type": "content", "content": text("[object Object]")}],
        ),
    ),
    "24 lines that no model wrote": _stream(
        "claude-transcript",
        _entry("assistant", message={"model": "<synthetic>", "content": [text("No response requested.")]}),
        _entry("user", "v", isMeta=True, message={"role": "user", "content": "<reminder>"}),
        {"type": "mode", "mode": "plan", "sessionId": claude.SESSION},
        {"type": "ai-title", "aiTitle": "A title", "sessionId": claude.SESSION},
        {"type": "last-prompt", "lastPrompt": "go", "sessionId": claude.SESSION},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": claude.SESSION, "timestamp": TIME},
    ),
    "24 lines beside the conversation": _print(
        init(),
        {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "error": "overloaded"},
        {"type": "system", "subtype": "hook_started", "hook_name": "h"},
        {"type": "system", "subtype": "hook_response", "hook_name": "h", "hook_event": "Stop", "exit_code": 0},
        {"type": "system", "subtype": "notification", "key": "k", "text": "3 tasks done"},
    ),
    "25 a harness adds its own time and a prompt before the head": _print(
        {**user(text("go")), "ts": 1}, {**init(), "ts": 2}, {**result(), "ts": 3}
    ),
    "26 calls that are null, empty, absent": _stream(
        "openai-chat",
        _answer(content="1", tool_calls=None),
        _answer(content="2", tool_calls=[]),
        {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 3}},
    ),
    "26 arguments in the first delta, an empty reason to finish": _stream(
        "openai-chat",
        openai_chunk("", tool_calls=[_called("a", "ls", '{"path"', index=0)]),
        openai_chunk("", tool_calls=[{"index": 0, "function": {"arguments": ': "."}'}}]),
        openai_chunk("tool_calls"),
    ),
    "26 no id, and arguments that are None": _stream(
        "openai-chat", _answer(content=None, tool_calls=[_called(None, "ls", "{}"), _called("b", "pwd", "None")])
    ),
    "27 content in parts, and reasoning beside it": _stream(
        "openai-chat",
        _answer(content=[{"type": "thinking", "thinking": [text("Hm.")]}, text("4")]),
        _answer(content="5", reasoning="Add one."),
    ),
    "27 an error instead of a completion": _stream(
        "openai-chat", {"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}
    ),
    "28 a result for several calls": _stream(
        "openai-chat",
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "", "tool_calls": [_called("c", "bash", '{"command": "ls"}')]},
                {"role": "tool", "content": "a", "tool_call_ids": ["c"]},
            ],
        },
    ),
    "not found: broken characters": _stream(
        "gemini-stream",
        b'{"type":"message","timestamp":"' + TIME.encode() + b'","role":"user","content":"caf\xe9 \\ud800"}',
    ),
    "not found: a result before its call": _print(
        init(), user(tool_result("a", "1")), assistant(use("a", "Bash", command="ls"))
    ),
    "not found: an input that is not an object": _print(
        init(), assistant({"type": "tool_use", "id": "a", "name": "Bash", "input": "ls"})
    ),
}
"""Number and name of the quirk -> its stream; some have several."""
