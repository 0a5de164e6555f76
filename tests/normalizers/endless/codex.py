"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from tests.normalizers.endless.text import TEXT


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
        ended = {"type": "exec_command_end", "call_id": f"c{n}", "aggregated_output": TEXT, "exit_code": 0}
        if n % 2:
            yield event(ended)
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


def codex_app_server() -> Iterator[Any]:
    for n in itertools.count():
        where = {"threadId": f"thread{n // 5}", "turnId": f"turn{n}"}

        def notify(method: str, where: dict[str, str] = where, **params: Any) -> dict[str, Any]:
            return {"method": method, "params": {**where, **params}}

        yield {"id": f"q{n}", "method": "turn/start", "params": {**where, "input": [{"type": "text", "text": TEXT}]}}
        yield notify("turn/started", turn={"id": f"turn{n}", "rootTurnId": f"turn{n - n % 5}"})
        command = {"type": "commandExecution", "id": f"c{n}", "command": f"{n} {TEXT}"}
        yield notify("item/started", item=command)
        yield notify("item/commandExecution/outputDelta", itemId=f"c{n}", delta=TEXT * 10)
        yield notify("item/agentMessage/delta", itemId=f"m{n}", delta=TEXT)
        spawn = {"type": "collabAgentToolCall", "id": f"s{n}", "tool": "spawnAgent", "receiverThreadIds": [f"new{n}"]}
        yield notify("item/completed", item=spawn)
        yield notify("item/completed", item={"type": "agentMessage", "id": f"m{n}", "text": f"{n} {TEXT}"})
        yield notify("turn/diff/updated", diff=f"diff --git a/{n} b/{n}\n{TEXT * 100}")
        yield notify("turn/plan/updated", plan=[{"step": f"{n} {TEXT}", "status": "pending"}])
        asked = {**where, "itemId": f"c{n}", "command": TEXT}
        yield {"id": n, "method": "item/commandExecution/requestApproval", "params": asked}
        if n % 3 == 0:
            yield notify("turn/completed", turn={"id": f"turn{n}", "status": "completed"})


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
        running = f"Process running with session ID {n}\nOutput:\n{TEXT}"
        yield line("response_item", type="function_call_output", call_id=f"c{n}", output=running)
        arguments = orjson.dumps({"session_id": n}).decode()
        yield line("response_item", type="function_call", name="write_stdin", arguments=arguments, call_id=f"p{n}")
        yield line("response_item", type="custom_tool_call", name="exec", input=TEXT, call_id=f"x{n}")
        command = {"type": "CommandExecution", "id": f"exec-{n}", "command": [TEXT], "status": "completed"}
        yield line("event_msg", type="item_completed", item=command)
        yield line("event_msg", type="agent_message", message=f"{n} {TEXT}")
        yield line("response_item", type="function_call_output", call_id=f"lost{n}", output=TEXT)
        if n % 3 == 0:
            yield line("event_msg", type="task_started", turn_id=f"turn{n}")
