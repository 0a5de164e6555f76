"""Streams without end, in which everything that could be remembered is new on every line."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from tests.normalizers.endless_apis import TEXT, happier_trace, openai_chat, openai_responses
from tooltap.normalizers.stream.contract import Line

__all__ = ["ENDLESS"]


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


def codex_exec() -> Iterator[Any]:
    for n in itertools.count():
        if n % 3 == 0:
            yield {"type": "thread.started", "thread_id": f"thread{n}"}
        yield {"type": "turn.started"}
        yield {"type": "error", "message": f"{n} {TEXT}"}
        command = {"id": "item_0", "type": "command_execution", "command": f"{n} {TEXT}", "status": "in_progress"}
        yield {"type": "item.started", "item": command}
        yield {"type": "item.updated", "item": {**command, "aggregated_output": TEXT * 400}}
        plan = {"id": f"plan_{n}", "type": "todo_list", "items": [{"text": f"{n} {TEXT}", "completed": False}]}
        yield {"type": "item.started", "item": plan}
        yield {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": f"{n} {TEXT}"}}
        yield {"type": "item.completed", "item": {"id": "item_2", "type": f"new_{n}", "text": TEXT}}
        if n % 2:
            yield {"type": "turn.completed", "usage": {"input_tokens": n, "output_tokens": 1}}


def codex_rollout() -> Iterator[Any]:
    for n in itertools.count():

        def line(kind: str, n: int = n, **payload: Any) -> dict[str, Any]:
            return {"timestamp": "2026-11-21T20:43:22.825Z", "ordinal": n, "type": kind, "payload": payload}

        if n % 5 == 0:
            yield line("session_meta", id=f"thread{n}", session_id=f"session{n}", cwd=f"/w{n}")
        yield line("turn_context", model=f"m{n}", cwd=f"/w{n}", approval_policy="never")
        yield line("event_msg", type="user_message", message=f"{n} {TEXT}")
        arguments = orjson.dumps({"cmd": f"{n} {TEXT}"}).decode()
        yield line("response_item", type="function_call", name="exec_command", arguments=arguments, call_id=f"c{n}")
        yield line("response_item", type="custom_tool_call", name="exec", input=TEXT, call_id=f"x{n}")
        command = {"type": "CommandExecution", "id": f"exec-{n}", "command": [TEXT], "status": "completed"}
        yield line("event_msg", type="item_completed", item=command)
        yield line("event_msg", type="agent_message", message=f"{n} {TEXT}")
        yield line("response_item", type="function_call_output", call_id=f"lost{n}", output=TEXT)
        if n % 3 == 0:
            yield line("event_msg", type="task_started", turn_id=f"turn{n}")


def codex_app_server() -> Iterator[Any]:
    for n in itertools.count():
        where = {"threadId": f"thread{n // 5}", "turnId": f"turn{n}"}

        def told(method: str, where: dict[str, str] = where, **params: Any) -> dict[str, Any]:
            return {"method": method, "params": {**where, **params}}

        yield {"id": f"q{n}", "method": "turn/start", "params": {**where, "input": [{"type": "text", "text": TEXT}]}}
        yield told("turn/started", turn={"id": f"turn{n}", "rootTurnId": f"turn{n - n % 5}"})
        command = {"type": "commandExecution", "id": f"c{n}", "command": f"{n} {TEXT}"}
        yield told("item/started", item=command)
        yield told("item/commandExecution/outputDelta", itemId=f"c{n}", delta=TEXT * 10)
        yield told("item/agentMessage/delta", itemId=f"m{n}", delta=TEXT)
        spawn = {"type": "collabAgentToolCall", "id": f"s{n}", "tool": "spawnAgent", "receiverThreadIds": [f"new{n}"]}
        yield told("item/completed", item=spawn)
        yield told("item/completed", item={"type": "agentMessage", "id": f"m{n}", "text": f"{n} {TEXT}"})
        yield told("turn/diff/updated", diff=f"diff --git a/{n} b/{n}\n{TEXT * 100}")
        yield told("turn/plan/updated", plan=[{"step": f"{n} {TEXT}", "status": "pending"}])
        asked = {**where, "itemId": f"c{n}", "command": TEXT}
        yield {"id": n, "method": "item/commandExecution/requestApproval", "params": asked}
        if n % 3 == 0:
            yield told("turn/completed", turn={"id": f"turn{n}", "status": "completed"})


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


def cursor_stream() -> Iterator[Any]:
    for n in itertools.count():
        common = {"session_id": f"s{n // 50}", "timestamp_ms": n}
        if n % 50 == 0:
            yield {"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": f"/w{n}", **common}
        yield {"type": "thinking", "subtype": "delta", "text": TEXT, **common}
        said = {"role": "assistant", "content": [{"type": "text", "text": f"{n} {TEXT}"}]}
        yield {"type": "assistant", "message": said, **common}
        for kind, told in (("started", {"args": {"command": TEXT}}), ("completed", {"result": {"success": {}}})):
            call = {"subtype": kind, "call_id": f"{kind}{n}", "tool_call": {"shellToolCall": told}}
            yield {"type": "tool_call", **call, **common}


def qwen_stream() -> Iterator[Any]:
    for n, line in enumerate(claude_stream()):
        yield line
        if n % 5 == 0:
            call = {"type": "tool_use", "id": f"proxy_{n}", "name": "tool_call", "input": {"name": f"t{n}"}}
            message = {"id": f"q{n}", "content": [call, {"type": "text", "text": TEXT}]}
            yield {"type": "assistant", "message": message, "session_id": "s", "parent_tool_use_id": None}
            event = {"type": "tool_progress", "tool_use_id": f"proxy_{n}", "content": {"output": TEXT}}
            yield {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None}


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


def legacy() -> Iterator[Any]:
    transcript = claude_transcript()
    for n in itertools.count():
        call = {"type": "tool-call", "callId": f"c{n}", "name": "execute", "input": {"command": TEXT * 10}}
        yield {"role": "agent", "content": {"type": "acp", "provider": f"p{n}", "data": call}}
        piece = {"type": "terminal-output", "callId": f"t{n}", "data": TEXT}
        yield {"role": "agent", "content": {"type": "acp", "provider": "gemini", "data": piece}}
        asked = {"type": "permission-request", "permissionId": f"p{n}", "toolName": "edit"}
        yield {"role": "agent", "content": {"type": "acp", "provider": "gemini", "data": asked}}
        yield {"role": "agent", "content": {"type": "output", "data": next(transcript)}}
        if n % 50 == 0:
            yield {"role": "agent", "content": {"type": "acp", "data": {"type": "task_started"}}}


def tooltap_trace() -> Iterator[Any]:
    """Every stream of every other dialect at once, and ever new ones."""
    sources = {name: make() for name, make in ENDLESS.items() if name != "tooltap-trace"}
    for n in itertools.count(1):
        for name, source in sources.items():
            line = orjson.dumps(next(source)).decode()
            yield {"v": 1, "stream": name, "dialect": name, "n": n, "line": line}
            yield {"v": 1, "stream": f"{name}{n}", "dialect": name, "n": 1, "line": line}


def opencode_bus() -> Iterator[Any]:
    for n in itertools.count():
        session = f"ses_{n // 5}"

        def event(kind: str, session: str = session, **properties: Any) -> dict[str, Any]:
            return {"type": kind, "properties": {"sessionID": session, **properties}}

        def part(kind: str, n: int = n, **fields: Any) -> dict[str, Any]:
            fields = {"id": f"prt_{kind}{n}", "messageID": f"msg_{n}", "type": kind, **fields}
            return event("message.part.updated", part=fields)

        yield {"POST": f"/session/{session}/prompt_async", "body": {"parts": [{"type": "text", "text": TEXT}]}}
        yield event("session.created", info={"id": session, "title": f"{n} {TEXT}", "directory": f"/w{n}"})
        yield event("session.created", info={"id": f"child_{n}", "parentID": session}, sessionID=f"child_{n}")
        yield event("message.updated", info={"id": f"msg_{n}", "role": "assistant"})
        yield part("text", text="", time={"start": 1})
        yield event("message.part.delta", messageID=f"msg_{n}", partID=f"prt_text{n}", field="text", delta=TEXT)
        state = {"status": "running", "input": {"command": TEXT}, "metadata": {"output": TEXT}}
        yield part("tool", tool="bash", callID=f"c{n}", state=state)
        spawned = {"status": "running", "input": {"prompt": TEXT}, "metadata": {"sessionId": f"child_{n}"}}
        yield part("tool", tool="task", callID=f"t{n}", state=spawned)
        yield part("step-finish", reason="tool-calls", tokens={"input": n, "output": 1, "reasoning": 0})
        yield event("todo.updated", todos=[{"content": f"{n} {TEXT}", "status": "pending"}])
        yield event("permission.asked", id=f"per_{n}", permission="bash", tool={"callID": f"p{n}"})
        yield event("question.asked", id=f"que_{n}", questions=[{"question": TEXT, "options": []}])
        yield event("permission.replied", requestID=f"never_{n}", reply="once")
        patch = f"--- a\n+++ b\n@@ -1 +1 @@\n-{n}\n+{TEXT * 20}\n"
        yield event("session.diff", diff=[{"file": f"{n}", "patch": patch}])
        yield event("message.removed", messageID=f"gone_{n}")
        yield {"type": "mcp.tools.changed", "properties": {"server": f"server{n}"}}


def opencode_run() -> Iterator[Any]:
    for n in itertools.count():
        session = f"ses_{n // 50}"

        def line(kind: str, n: int = n, session: str = session, **part: Any) -> dict[str, Any]:
            part = {"id": f"prt_{kind}{n}", "messageID": f"msg_{n}", "sessionID": session, **part}
            return {"type": kind, "timestamp": 1795294033788, "sessionID": session, "part": part}

        yield line("step_start", type="step-start")
        yield line("text", type="text", text=TEXT)
        ended = {"status": "completed", "input": {"command": TEXT}, "output": TEXT, "metadata": {"exit": 0}}
        yield line("tool_use", type="tool", tool="bash", callID=f"c{n}", state=ended)
        opened = {"status": "running", "input": {"command": TEXT}, "metadata": {"output": TEXT}}
        yield line("tool_use", type="tool", tool="bash", callID=f"open{n}", state=opened)
        tokens = {"input": n, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        yield line("step_finish", type="step-finish", reason="tool-calls", tokens=tokens, cost=0)


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


def display_tools() -> Iterator[Any]:
    yield {"type": "display/session", "cwd": "/w"}
    for n in itertools.count():
        call = {"callId": f"c{n}", "tool": "render_file_contents"}
        yield {"type": "display/call", **call, "arguments": {"path": f"{n} {TEXT}"}}
        answered = {**call, "callId": f"answered{n}", "status": "completed", "text": TEXT, "durationMs": 1}
        yield {"type": "display/result", **answered, "display": {"outputId": f"o{n}", "mimeType": "text/plain"}}


ENDLESS: dict[str, Callable[[], Iterator[Any]]] = {
    "acp": acp,
    "claude-stream": claude_stream,
    "claude-transcript": claude_transcript,
    "cline-json": cline_json,
    "codex-app-server": codex_app_server,
    "codex-exec": codex_exec,
    "codex-mcp": codex_mcp,
    "codex-rollout": codex_rollout,
    "copilot-json": copilot_json,
    "cursor-stream": cursor_stream,
    "display-tools": display_tools,
    "gemini-chat": gemini_chat,
    "gemini-stream": gemini_stream,
    "happier-trace": happier_trace,
    "kimi-json": kimi_json,
    "legacy": legacy,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "opencode-bus": opencode_bus,
    "opencode-run": opencode_run,
    "pi-json": pi_json,
    "qwen-stream": qwen_stream,
    "tooltap-trace": tooltap_trace,
    "vibe-json": vibe_json,
}


def lines(dialect: str, number: int) -> Iterator[Line]:
    for value in itertools.islice(ENDLESS[dialect](), number):
        yield Line(orjson.dumps(value))
