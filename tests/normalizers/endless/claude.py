"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


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
        report = {"task_id": f"t{n}", "tool_use_id": f"toolu_{n}", "description": TEXT, "uuid": f"d{n}"}
        yield {"type": "system", "subtype": "task_started", **report, **common}
        hook = {"hook_id": f"h{n}", "hook_name": "x", "hook_event": "Stop", "uuid": f"e{n}"}
        yield {"type": "system", "subtype": "hook_started", **hook, **common}
        denial = {"tool_name": "Bash", "tool_use_id": f"never_{n}", "message": TEXT, "uuid": f"f{n}"}
        yield {"type": "system", "subtype": "permission_denied", **denial, **common}
        failed = {"type": "tool_result", "tool_use_id": f"child_{n}", "content": f"{n} {TEXT}", "is_error": True}
        yield {"type": "user", "message": {"role": "user", "content": [failed]}, **common}
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
        told = f"<task-notification><task-id>u{n}</task-id><summary>{TEXT}</summary></task-notification>"
        yield line("user", uuid=f"told{n}", message={"role": "user", "content": told})
        yield {"type": "summary", "summary": f"{n} {TEXT}", "leafUuid": f"l{n}"}
        yield line("system", subtype=f"new_{n}", content=TEXT)
