"""Streams without end, in which everything that could be remembered is new on every line."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from tooltap.normalizers.contract import Line

__all__ = ["ENDLESS"]

TEXT = "x" * 200


def claude_stream() -> Iterator[Any]:
    common = {"session_id": "s", "parent_tool_use_id": None}
    yield {"type": "system", "subtype": "init", "cwd": "/w", "model": "m", "tools": [], "uuid": "u", **common}
    for n in itertools.count():
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {"command": f"{n} {TEXT}"}}
        delta = {"type": "content_block_delta", "index": n % 50, "delta": {"type": "text_delta", "text": TEXT}}
        start = {"type": "message_start", "message": {"id": f"p{n}", "role": "assistant", "content": []}}
        yield {"type": "stream_event", "event": start, "uuid": f"a{n}", **common}
        block = {"type": "content_block_start", "index": n % 50, "content_block": {"type": "text", "text": ""}}
        yield {"type": "stream_event", "event": block, "uuid": f"b{n}", **common}
        yield {"type": "stream_event", "event": delta, "uuid": f"c{n}", **common}
        yield {"type": "assistant", "message": {"id": f"m{n}", "role": "assistant", "content": [call]}, **common}
        child = {"id": f"k{n}", "role": "assistant", "content": [{**call, "id": f"child_{n}"}]}
        yield {"type": "assistant", "message": child, "session_id": "s", "parent_tool_use_id": f"toolu_{n}"}
        told = {"task_id": f"t{n}", "tool_use_id": f"toolu_{n}", "description": TEXT, "uuid": f"d{n}"}
        yield {"type": "system", "subtype": "task_started", **told, **common}
        hook = {"hook_id": f"h{n}", "hook_name": "x", "hook_event": "Stop", "uuid": f"e{n}"}
        yield {"type": "system", "subtype": "hook_started", **hook, **common}
        denial = {"tool_name": "Bash", "tool_use_id": f"never_{n}", "message": TEXT, "uuid": f"f{n}"}
        yield {"type": "system", "subtype": "permission_denied", **denial, **common}
        yield {"type": "control_request", "request_id": f"r{n}", "request": {"subtype": f"new_{n}", "x": TEXT}}
        if n % 7 == 0:
            yield {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, **common}
        if n % 5 == 0:
            yield {"type": "system", "subtype": "init", "cwd": f"/w{n}", "model": f"m{n}", "uuid": f"g{n}", **common}


def claude_transcript() -> Iterator[Any]:
    for n in itertools.count():

        def line(kind: str, n: int = n, **more: Any) -> dict[str, Any]:
            common = {"isSidechain": False, "sessionId": f"s{n // 50}", "cwd": "/w", "version": "2.1.330"}
            return {"type": kind, "uuid": f"{kind}{n}", "parentUuid": f"p{n}", **common, **more}

        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Task", "input": {"prompt": f"{n} {TEXT}"}}
        usage = {"input_tokens": n, "output_tokens": 1}
        message = {"id": f"m{n}", "role": "assistant", "model": f"m{n}", "content": [call], "usage": usage}
        if n % 5 == 0:
            yield line("user", message={"role": "user", "content": TEXT}, promptId=f"q{n}")
        yield line("assistant", message=message)
        yield line("user", uuid=f"side{n}", message={"role": "user", "content": f"{n} {TEXT}"}, isSidechain=True)
        child = {**message, "id": f"k{n}", "content": [{**call, "id": f"child_{n}", "name": "Bash"}]}
        yield line("assistant", uuid=f"c{n}", parentUuid=f"side{n}", message=child, isSidechain=True)
        nested = {
            "type": "assistant",
            "uuid": f"n{n}",
            "message": {**child, "id": f"j{n}", "content": [{**call, "id": f"g{n}"}]},
        }
        data = {"type": "agent_progress", "agentId": f"a{n}", "message": nested}
        yield line("progress", data=data, parentToolUseID=f"toolu_{n}")
        launched = {"isAsync": True, "status": "async_launched", "agentId": f"t{n}"}
        block = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": TEXT}
        yield line("user", message={"role": "user", "content": [block]}, toolUseResult=launched)
        yield {"type": "summary", "summary": f"{n} {TEXT}", "leafUuid": f"l{n}"}
        yield line("system", subtype=f"new_{n}", content=TEXT)


def codex_mcp() -> Iterator[Any]:
    for n in itertools.count():
        thread = f"thread{n // 5}"

        def event(message: dict[str, Any], n: int = n, thread: str = thread) -> dict[str, Any]:
            meta = {"requestId": n, "threadId": thread}
            return {"jsonrpc": "2.0", "method": "codex/event", "params": {"_meta": meta, "id": str(n), "msg": message}}

        prompt = {"name": "codex", "arguments": {"prompt": TEXT}}
        yield {"jsonrpc": "2.0", "id": f"q{n}", "method": "tools/call", "params": prompt}
        yield event({"type": "task_started", "turn_id": f"turn{n}"})
        arguments = orjson.dumps({"cmd": f"{n} {TEXT}"}).decode()
        item = {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": f"c{n}"}
        yield event({"type": "raw_response_item", "item": item})
        yield event({"type": "exec_command_output_delta", "call_id": f"c{n}", "stream": "stdout", "chunk": "eHh4eHg="})
        yield event({"type": "exec_command_output_delta", "call_id": f"lost{n}", "stream": "stdout", "chunk": "eHh4"})
        delta = {"thread_id": thread, "turn_id": f"turn{n}", "item_id": f"i{n}", "delta": TEXT}
        yield event({"type": "agent_message_content_delta", **delta})
        yield event({"type": "reasoning_content_delta", **delta, "item_id": f"r{n}"})
        started = {"type": "AgentMessage", "id": f"j{n}", "content": [{"type": "Text", "text": TEXT}]}
        yield event({"type": "item_started", "thread_id": thread, "turn_id": f"turn{n}", "item": started})
        yield event({"type": "item_completed", "thread_id": thread, "turn_id": f"turn{n}", "item": started})
        yield event({"type": "turn_diff", "unified_diff": f"diff --git a/{n} b/{n}\n{TEXT * 100}"})
        yield event({"type": "plan_update", "plan": [{"step": f"{n} {TEXT}", "status": "pending"}]})
        asked = {"message": TEXT, "codex_elicitation": "exec-approval", "codex_call_id": f"c{n}", "threadId": thread}
        yield {"jsonrpc": "2.0", "id": f"e{n}", "method": "elicitation/create", "params": asked}


def acp() -> Iterator[Any]:
    for n in itertools.count():
        session = f"session{n // 5}"

        def update(update: str, session: str = session, **more: Any) -> dict[str, Any]:
            params = {"sessionId": session, "update": {"sessionUpdate": update, **more}}
            return {"jsonrpc": "2.0", "method": "session/update", "params": params}

        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": TEXT}]}
        yield {"jsonrpc": "2.0", "id": f"q{n}", "method": "session/prompt", "params": prompt}
        yield {"jsonrpc": "2.0", "id": f"f{n}", "method": "fs/read_text_file", "params": {"path": TEXT}}
        yield {"jsonrpc": "2.0", "id": f"t{n}", "method": "terminal/create", "params": {"command": TEXT}}
        yield {"jsonrpc": "2.0", "id": f"t{n}", "result": {"terminalId": f"term{n}"}}
        yield update("agent_message_chunk", content={"type": "text", "text": TEXT}, messageId=f"m{n}")
        yield update("tool_call", toolCallId=f"c{n}", title=TEXT, kind="execute", rawInput={"command": TEXT * 100})
        diff = {"type": "diff", "path": f"/w/{n}", "oldText": TEXT * 20, "newText": TEXT * 20}
        yield update(
            "tool_call_update", toolCallId=f"c{n}", content=[diff, {"type": "terminal", "terminalId": f"x{n}"}]
        )
        yield update("tool_call_update", toolCallId=f"d{n}", status="in_progress", rawInput={"n": n})
        yield update("plan", entries=[{"content": f"{n} {TEXT}", "status": "pending"}])
        yield update("session_info_update", title=f"{n} {TEXT}")
        yield update("available_commands_update", availableCommands=[{"name": f"{n}"}])
        options = [{"optionId": f"o{n}", "name": TEXT, "kind": "allow_once"}]
        asked = {"sessionId": session, "toolCall": {"toolCallId": f"p{n}", "title": TEXT}, "options": options}
        yield {"jsonrpc": "2.0", "id": f"p{n}", "method": "session/request_permission", "params": asked}


def happier_trace() -> Iterator[Any]:
    for n in itertools.count():
        common = {"v": 1, "ts": 10**12 + n, "direction": "outbound", "sessionId": f"s{n // 50}", "protocol": "acp"}
        common["provider"] = "gemini"
        call = {"type": "tool-call", "callId": f"c{n}", "name": "execute", "input": {"command": TEXT * 10}}
        yield {**common, "kind": "tool-call", "payload": call}
        asked = {"type": "permission-request", "permissionId": f"p{n}", "toolName": "edit"}
        hint = {"toolCall": {"toolCallId": f"p{n}", "rawInput": {"x": TEXT * 10}}}
        yield {**common, "kind": "permission-request", "payload": {**asked, "options": hint}}
        answer = {"type": "tool-result", "callId": f"r{n}", "output": TEXT}
        yield {**common, "kind": "tool-result", "payload": answer}


def qwen_stream() -> Iterator[Any]:
    for n, line in enumerate(claude_stream()):
        yield line
        if n % 5 == 0:
            call = {"type": "tool_use", "id": f"proxy_{n}", "name": "tool_call", "input": {"name": f"t{n}"}}
            message = {"id": f"q{n}", "content": [call, {"type": "text", "text": TEXT}]}
            yield {"type": "assistant", "message": message, "session_id": "s", "parent_tool_use_id": None}
            event = {"type": "tool_progress", "tool_use_id": f"proxy_{n}", "content": {"output": TEXT}}
            yield {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None}


ENDLESS: dict[str, Callable[[], Iterator[Any]]] = {
    "acp": acp,
    "claude-stream": claude_stream,
    "claude-transcript": claude_transcript,
    "codex-mcp": codex_mcp,
    "happier-trace": happier_trace,
    "qwen-stream": qwen_stream,
}


def lines(dialect: str, number: int) -> Iterator[Line]:
    for value in itertools.islice(ENDLESS[dialect](), number):
        yield Line(orjson.dumps(value))
