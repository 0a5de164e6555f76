"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():
        arguments = orjson.dumps({"command": f"{n} {TEXT}", "run_in_background": True}).decode()
        call = {"type": "function", "id": f"c{n}", "function": {"name": "Shell", "arguments": arguments}}
        lost = {**call, "id": f"lost{n}"}
        yield {"role": "assistant", "content": [{"type": "think", "think": TEXT}], "tool_calls": [call, lost]}
        yield {"role": "tool", "content": f"task_id: task{n}\nkind: bash\nstatus: running", "tool_call_id": f"c{n}"}
        yield {"role": "tool", "content": TEXT, "tool_call_id": f"unknown{n}"}
        yield from _wire_lines(n)
        if n % 100 == 0:
            yield {"role": "assistant", "content": TEXT}


def _wire_lines(n: int) -> Iterator[Any]:
    def line(method: str, kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": method, "params": {"type": kind, "payload": payload}, **more}

    function = {"name": "Shell", "arguments": ""}
    written = line("event", "ToolCall", {"type": "function", "id": f"w{n}", "function": function})["params"]
    piece = {"type": "ToolCallPart", "payload": {"arguments_part": TEXT}}
    for inner in (written, piece):
        yield line("event", "SubagentEvent", {"parent_tool_call_id": f"p{n}", "agent_id": f"a{n}", "event": inner})
    yield line("event", "ContentPart", {"type": "text", "text": TEXT})
    approval = {"id": f"r{n}", "tool_call_id": f"c{n}", "sender": "Shell", "description": TEXT}
    yield line("request", "ApprovalRequest", approval, id=f"q{n}")
    yield {"jsonrpc": "2.0", "id": f"s{n}", "method": "steer", "params": {"user_input": TEXT}}
    servers = [{"name": f"server{n}", "status": "connected", "tools": [f"tool{n}"]}]
    yield line("event", "StatusUpdate", {"mcp_status": {"servers": servers}})


def session_lines() -> Iterator[Any]:
    for n in itertools.count():

        def line(kind: str, n: int = n, **fields: Any) -> dict[str, Any]:
            return {"type": kind, "agentId": "main", **fields, "time": 1795486123467 + n}

        def event(kind: str, **fields: Any) -> dict[str, Any]:
            return line("context.append_loop_event", event={"type": kind, **fields})

        if n % 50 == 0:
            yield line("turn.prompt", input=[{"type": "text", "text": TEXT}], origin={"kind": "user"})
        yield line("llm.request", model=f"m{n}")
        yield event("content.part", part={"type": "think", "think": f"{n} {TEXT}"})
        background = {"command": f"{n} {TEXT}", "run_in_background": True}
        yield event("tool.call", toolCallId=f"c{n}", name="Bash", args=background)
        yield event("tool.result", toolCallId=f"c{n}", result={"output": f"task_id: b{n}\n{TEXT}"})
        yield event("tool.result", toolCallId=f"lost{n}", result={"output": TEXT})
        yield event("tool.call", toolCallId=f"d{n}", name="Grep", args={"pattern": TEXT})
