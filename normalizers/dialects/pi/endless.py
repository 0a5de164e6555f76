"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tooltap.normalizers.catalog.endless import TEXT


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
