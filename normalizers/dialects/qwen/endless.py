"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tooltap.normalizers.catalog.endless import TEXT
from tooltap.normalizers.dialects.claude.endless import claude_stream


def lines() -> Iterator[Any]:
    for n, line in enumerate(claude_stream()):
        yield line
        if n % 5 == 0:
            call = {"type": "tool_use", "id": f"proxy_{n}", "name": "tool_call", "input": {"name": f"t{n}"}}
            message = {"id": f"q{n}", "content": [call, {"type": "text", "text": TEXT}]}
            yield {"type": "assistant", "message": message, "session_id": "s", "parent_tool_use_id": None}
            event = {"type": "tool_progress", "tool_use_id": f"proxy_{n}", "content": {"output": TEXT}}
            yield {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None}
