"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


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
        yield {"type": "tool_use", **now, "tool_name": f"mcp_s{n}_x", "tool_id": f"m{n}", "parameters": {}}
        error = {"message": "MCP tool 'x' reported tool error"}
        yield {"type": "tool_result", **now, "tool_id": f"m{n}", "status": "error", "error": error}
        yield {"type": "tool_result", **now, "tool_id": f"lost{n}", "status": "success", "output": TEXT}


def gemini_chat() -> Iterator[Any]:
    for n in itertools.count():
        now = {"timestamp": "2026-11-21T20:45:09.996Z"}
        yield {"id": f"u{n}", **now, "type": "user", "content": [{"text": f"{n} {TEXT}"}]}
        call = {"id": f"c{n}", "name": "run_shell_command", "args": {"command": TEXT}, "status": "executing"}
        mcp = {"id": f"m{n}", "name": "x", "args": {}, "displayName": f"x (s{n} MCP Server)", "status": "executing"}
        yield {"id": f"g{n}", **now, "type": "gemini", "content": TEXT, "toolCalls": [call, mcp], "model": f"m{n}"}
        answer = {"functionResponse": {"id": f"lost{n}", "name": f"tool{n}", "response": {"output": TEXT}}}
        yield {"id": f"r{n}", **now, "type": "user", "content": [answer]}
        yield {"$set": {"summary": f"{n} {TEXT}", "sessionId": f"s{n}"}}
        if n % 5 == 0:
            yield {"$rewindTo": f"u{n}"}
