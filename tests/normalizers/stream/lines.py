"""Handmade lines of several dialects, for the tests of quirks."""

from __future__ import annotations

import json
from typing import Any

from tests.normalizers.dialects.claude import helpers as claude

__all__ = [
    "TIME",
    "claude_lines",
    "codex_function",
    "codex_output",
    "codex_prompt",
    "exec_item",
    "gemini_line",
    "openai_chunk",
    "rollout",
]

TIME = "2026-01-01T00:00:00.000Z"


def claude_lines(*values: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of `claude -p --output-format stream-json`."""
    return [{"session_id": claude.SESSION, "parent_tool_use_id": None, **value} for value in values]


def rollout(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": TIME, "type": kind, "payload": payload}


def codex_prompt() -> dict[str, Any]:
    return rollout("event_msg", type="user_message", message="go")


def codex_function(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    keys = {"name": name, "call_id": call_id, "arguments": json.dumps(arguments)}
    return rollout("response_item", type="function_call", **keys)


def codex_output(call_id: str, output: str) -> dict[str, Any]:
    return rollout("response_item", type="function_call_output", call_id=call_id, output=output)


def exec_item(item_id: str, kind: str, **keys: Any) -> dict[str, Any]:
    """An item of `codex exec`."""
    return {"type": "item.completed", "item": {"id": item_id, "type": kind, **keys}}


def gemini_line(kind: str, **keys: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": TIME, **keys}


def openai_chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
