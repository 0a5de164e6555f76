"""Requests and answers of the Chat Completions API, and the recordings of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.normalizers.reading import read
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event
from tooltap.testing import Line, normalize, read_recording

__all__ = ["chat", "chunk", "completion", "read_chat", "recording", "request", "result", "shell", "use", "user"]

WRITTEN = Path(__file__).parents[3] / "fixtures" / "openai-chat" / "openai-written"


def recording(name: str) -> list[Line]:
    return read_recording((WRITTEN / f"{name}.jsonl").read_bytes())


def chat(name: str) -> list[Event]:
    return normalize("openai-chat", recording(name), Context(stream="s"))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "small", "messages": list(messages)}


def completion(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **more}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


def use(call_id: str, name: str = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: str = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def read_chat(*values: Any) -> list[Event]:
    return read("openai-chat", *values)


def shell(call_id: str, command: str) -> dict[str, Any]:
    arguments = f'{{"command": "{command}"}}'
    return {"role": "assistant", "content": "", "tool_calls": [use(call_id, "bash", arguments)]}
