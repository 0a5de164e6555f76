"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.claude import claude_stream
from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n, line in enumerate(claude_stream()):
        yield line
        if n % 5 == 0:
            call = {"type": "tool_use", "id": f"proxy_{n}", "name": "tool_call", "input": {"name": f"t{n}"}}
            message = {"id": f"q{n}", "content": [call, {"type": "text", "text": TEXT}]}
            yield {"type": "assistant", "message": message, "session_id": "s", "parent_tool_use_id": None}
            event = {"type": "tool_progress", "tool_use_id": f"proxy_{n}", "content": {"output": TEXT}}
            yield {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None}


def chat_lines() -> Iterator[Any]:
    for n in itertools.count():

        def line(kind: str, *parts: dict[str, Any], n: int = n, **more: Any) -> dict[str, Any]:
            entry = {
                "uuid": f"{kind}{n}",
                "parentUuid": None,
                "sessionId": "s",
                "timestamp": "2026-11-24T02:04:13.562Z",
            }
            return {**entry, "type": kind, "message": {"role": "user", "parts": list(parts)}, **more}

        if n % 50 == 0:
            yield line("user", {"text": TEXT})
        call = {"id": f"c{n}", "name": "run_shell_command", "args": {"command": f"{n} {TEXT}"}}
        thought = {"text": f"{n} {TEXT}", "thought": True}
        yield line("assistant", thought, {"functionCall": call}, model=f"m{n}")
        response = {"id": f"lost{n}", "name": f"t{n}", "response": {"output": TEXT}}
        yield line("tool_result", {"functionResponse": response}, toolCallResult={"status": "success"})
