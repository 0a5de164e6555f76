"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from tests.normalizers.endless.text import TEXT


def openai_chat() -> Iterator[Any]:
    for n in itertools.count():
        answer = {"id": f"chatcmpl-{n}", "object": "chat.completion.chunk", "model": f"m{n // 5}"}

        def chunk(answer: dict[str, Any] = answer, finish: str | None = None, **delta: Any) -> dict[str, Any]:
            return {**answer, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        prompt = {"role": "user", "content": f"{n} {TEXT}"}
        result = {"role": "tool", "tool_call_id": f"lost{n}", "content": TEXT}
        yield {"model": "m", "messages": [prompt, result]}
        yield chunk(reasoning=TEXT)
        yield chunk(content=TEXT)
        call = {"index": n % 7, "id": f"c{n}", "function": {"name": "bash", "arguments": TEXT}}
        yield chunk(tool_calls=[call])
        yield chunk(finish="tool_calls")
        if n % 5 == 0:
            yield {**answer, "choices": [], "usage": {"prompt_tokens": n, "completion_tokens": 1}}


def openai_responses() -> Iterator[Any]:
    for n in itertools.count():
        said = {"type": "message", "role": "user", "content": f"{n} {TEXT}"}
        answer = {"type": "function_call_output", "call_id": f"lost{n}", "output": TEXT}
        yield {"model": "m", "stream": True, "input": [said, answer]}
        if n % 50 == 0:
            response = {"id": f"r{n}", "object": "response", "model": f"m{n}", "output": []}
            yield {"type": "response.created", "response": response}
        place = {"output_index": n}
        call = {"type": "function_call", "id": f"f{n}", "call_id": f"c{n}", "name": "shell", "arguments": ""}
        yield {"type": "response.output_item.added", **place, "item": call}
        whole = {**call, "arguments": orjson.dumps({"command": f"{n} {TEXT}"}).decode()}
        yield {"type": "response.output_item.done", **place, "item": whole}
        delta = {"item_id": f"i{n}", "content_index": 0, "delta": TEXT}
        yield {"type": "response.output_text.delta", "output_index": n + 1, **delta}
        asked = {"type": "mcp_approval_request", "id": f"a{n}", "name": "x", "server_label": "s", "arguments": "{}"}
        yield {"type": "response.output_item.done", "output_index": n + 2, "item": asked}
