"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
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
        yield {"id": f"r{n}", "type": "prompt", "message": f"{n} {TEXT}"}
        state = {"sessionId": f"s{n}", "sessionName": f"name {n}", "model": {"id": f"m{n}"}}
        yield {"id": f"q{n}", "type": "response", "command": "get_state", "success": True, "data": state}
        yield {"type": "extension_ui_request", "id": f"d{n}", "method": "confirm", "title": TEXT}


def session_lines() -> Iterator[Any]:
    for n in itertools.count():

        def entry(role: str, n: int = n, **message: Any) -> dict[str, Any]:
            common = {"type": "message", "id": f"{role}{n}", "parentId": None, "timestamp": "2026-11-24T02:06:23.317Z"}
            return {**common, "message": {"role": role, **message}}

        if n % 50 == 0:
            yield entry("user", content=[{"type": "text", "text": TEXT}])
        call = {"type": "toolCall", "id": f"c{n}", "name": "bash", "arguments": {"command": f"{n} {TEXT}"}}
        thought = {"type": "thinking", "thinking": f"{n} {TEXT}"}
        yield entry("assistant", content=[thought, call], model=f"m{n}", stopReason="toolUse", responseId=f"r{n}")
        yield entry("toolResult", toolCallId=f"lost{n}", toolName=f"t{n}", content=[{"type": "text", "text": TEXT}])
