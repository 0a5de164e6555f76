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


def gemini_stream() -> Iterator[Any]:
    for n in itertools.count():
        now = {"timestamp": "2026-11-21T20:45:09.996Z"}
        if n % 5 == 0:
            yield {"type": "init", **now, "session_id": f"s{n}", "model": "m"}
        yield {"type": "message", **now, "role": "user", "content": TEXT}
        yield {"type": "message", **now, "role": "assistant", "content": TEXT, "delta": True}
        call = {"tool_name": "run_shell_command", "tool_id": f"c{n}", "parameters": {"command": TEXT}}
        yield {"type": "tool_use", **now, **call}
        background = "Command moved to background (PID: 7). Output hidden. Press Ctrl+B to view."
        yield {"type": "tool_result", **now, "tool_id": f"c{n}", "status": "success", "output": background}
        yield {"type": "tool_result", **now, "tool_id": f"lost{n}", "status": "success", "output": TEXT}


def gemini_chat() -> Iterator[Any]:
    for n in itertools.count():
        now = {"timestamp": "2026-11-21T20:45:09.996Z"}
        yield {"id": f"u{n}", **now, "type": "user", "content": [{"text": f"{n} {TEXT}"}]}
        call = {"id": f"c{n}", "name": "run_shell_command", "args": {"command": TEXT}, "status": "executing"}
        yield {"id": f"g{n}", **now, "type": "gemini", "content": TEXT, "toolCalls": [call], "model": f"m{n}"}
        answer = {"functionResponse": {"id": f"lost{n}", "name": f"tool{n}", "response": {"output": TEXT}}}
        yield {"id": f"r{n}", **now, "type": "user", "content": [answer]}
        yield {"$set": {"summary": f"{n} {TEXT}", "sessionId": f"s{n}"}}
        if n % 5 == 0:
            yield {"$rewindTo": f"u{n}"}


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


def kimi_json() -> Iterator[Any]:
    for n in itertools.count():
        arguments = orjson.dumps({"command": f"{n} {TEXT}", "run_in_background": True}).decode()
        call = {"type": "function", "id": f"c{n}", "function": {"name": "Shell", "arguments": arguments}}
        lost = {**call, "id": f"lost{n}"}
        yield {"role": "assistant", "content": [{"type": "think", "think": TEXT}], "tool_calls": [call, lost]}
        yield {"role": "tool", "content": f"task_id: task{n}\nkind: bash\nstatus: running", "tool_call_id": f"c{n}"}
        yield {"role": "tool", "content": TEXT, "tool_call_id": f"unknown{n}"}
        if n % 100 == 0:
            yield {"role": "assistant", "content": TEXT}


def pi_json() -> Iterator[Any]:
    for n in itertools.count():
        if n % 50 == 0:
            yield {"type": "session", "version": 3, "id": f"s{n}", "cwd": f"/w{n}"}
            yield {"type": "agent_start"}
        delta = {"type": "text_delta", "contentIndex": n, "delta": TEXT}
        yield {"type": "message_update", "assistantMessageEvent": delta}
        block = {"type": "toolCall", "id": f"c{n}", "name": "bash", "arguments": {"command": f"{n} {TEXT}"}}
        message = {"role": "assistant", "content": [block], "model": f"m{n}", "responseId": f"r{n}"}
        yield {"type": "message_end", "message": message}
        yield {"type": "tool_execution_start", "toolCallId": f"d{n}", "toolName": "bash", "args": {"command": TEXT}}
        output = {"content": [{"type": "text", "text": f"{n} {TEXT}"}]}
        yield {"type": "tool_execution_update", "toolCallId": f"d{n}", "toolName": "bash", "partialResult": output}
        yield {"type": "tool_execution_end", "toolCallId": f"lost{n}", "toolName": f"t{n}", "result": output}


def copilot_json() -> Iterator[Any]:
    for n in itertools.count():

        def line(kind: str, n: int = n, agent: str | None = None, **data: Any) -> dict[str, Any]:
            common = {"id": f"{kind}{n}", "timestamp": "2026-11-21T20:58:02.210Z", "parentId": None}
            return {"type": kind, "data": data, **common, **({"agentId": agent} if agent else {})}

        if n % 50 == 0:
            yield line("user.message", content=TEXT, interactionId=f"i{n}", delivery="idle")
        yield line("session.mcp_servers_loaded", servers=[{"name": f"server{n}", "status": "connected"}])
        yield line("session.tools_updated", model=f"m{n}")
        yield line("assistant.message_delta", messageId=f"m{n}", deltaContent=TEXT)
        call = {"toolCallId": f"c{n}", "name": "bash", "arguments": {"command": f"{n} {TEXT}"}}
        yield line("assistant.message", messageId=f"n{n}", content=TEXT, toolRequests=[call])
        yield line("subagent.started", agent=f"a{n}", toolCallId=f"c{n}", agentName="x")
        yield line("tool.shell_output", toolCallId=f"c{n}", stream="stdout", text=TEXT)
        child = {"toolCallId": f"d{n}", "toolName": "grep", "arguments": {"pattern": TEXT}}
        yield line("tool.execution_start", n, f"a{n}", **child)
        yield line("tool.execution_complete", toolCallId=f"lost{n}", success=True, result={"content": TEXT})
        yield line("permission.requested", requestId=f"p{n}", permissionRequest={"toolCallId": f"c{n}"})


def cline_json() -> Iterator[Any]:
    for n in itertools.count():

        def event(kind: str, content: str, **more: Any) -> dict[str, Any]:
            told = {"type": kind, "contentType": content, **more}
            return {"ts": "2026-11-21T21:05:00.812Z", "type": "agent_event", "event": told}

        if n % 50 == 0:
            hook = {"hookEventName": "agent_start", "agentId": f"a{n}", "taskId": f"t{n}", "parentAgentId": None}
            yield {"ts": "2026-11-21T21:05:00.812Z", "type": "hook_event", **hook}
        yield event("content_start", "text", text=TEXT)
        call = {"toolCallId": f"c{n}", "toolName": "run_commands"}
        yield event("content_start", "tool", **call, input={"commands": [f"{n} {TEXT}"]})
        yield event("content_update", "tool", **call, update={"stream": "stdout", "chunk": TEXT})
        yield event("content_end", "tool", toolCallId=f"lost{n}", toolName=f"x{n}", output=TEXT)


def vibe_json() -> Iterator[Any]:
    for n in itertools.count():

        def entry(entry_id: str, kind: str, status: str, n: int = n, **more: Any) -> dict[str, Any]:
            common = {"id": entry_id, "sessionId": f"s{n // 50}", "turnId": f"t{n // 20}", "createdAt": 10**12}
            return {**common, "type": kind, "generationStatus": status, **more}

        content = [{"type": "text", "text": TEXT}]
        yield entry(f"m{n}", "message", "in_progress", role="assistant", content=content)
        yield entry(f"n{n}", "message", "completed", role="assistant", content=content)
        detail = {"toolName": "file_system.bash", "input": {"command": f"{n} {TEXT}"}}
        yield entry(f"e{n}", "effect", "in_progress", detail=detail, state={"status": "running"})
        asked = {"kind": "approval", "effect": detail, "choices": ["approve", "deny"]}
        yield entry(f"c{n}", "callback", "in_progress", callbackId=f"p{n}", relatedEntryId=f"f{n}", detail=asked)


ENDLESS: dict[str, Callable[[], Iterator[Any]]] = {
    "acp": acp,
    "claude-stream": claude_stream,
    "cline-json": cline_json,
    "codex-mcp": codex_mcp,
    "copilot-json": copilot_json,
    "gemini-chat": gemini_chat,
    "gemini-stream": gemini_stream,
    "happier-trace": happier_trace,
    "kimi-json": kimi_json,
    "pi-json": pi_json,
    "vibe-json": vibe_json,
}


def lines(dialect: str, number: int) -> Iterator[Line]:
    for value in itertools.islice(ENDLESS[dialect](), number):
        yield Line(orjson.dumps(value))
