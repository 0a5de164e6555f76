"""Requests, answers and events of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import read
from tooltap.protocol.events import Event

__all__ = ["answer", "deltas", "read_messages", "request", "result", "streamed", "use", "user"]


def read_messages(*values: Any) -> list[Event]:
    return read("anthropic-messages", *values)


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]}


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": list(messages), **more}


def answer(*content: dict[str, Any], stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    return {**fields, "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 2}, **more}


def use(call_id: str, command: str = "ls", name: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"command": command}}


def result(call_id: str, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def deltas(index: int, block: dict[str, Any], *pieces: dict[str, Any], stops: bool = True) -> list[dict[str, Any]]:
    """The events of a block."""
    stop = [{"type": "content_block_stop", "index": index}] if stops else []
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces),
        *stop,
    ]


def streamed(*blocks: list[dict[str, Any]], stop: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    """The events of an answer."""
    return [
        {"type": "message_start", "message": answer(stop=None)},
        *(event for block in blocks for event in block),
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage or {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
