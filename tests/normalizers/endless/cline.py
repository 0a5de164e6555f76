"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():

        def event(kind: str, content: str, **more: Any) -> dict[str, Any]:
            fields = {"type": kind, "contentType": content, **more}
            return {"ts": "2026-11-21T21:05:00.812Z", "type": "agent_event", "event": fields}

        if n % 50 == 0:
            hook = {"hookEventName": "agent_start", "agentId": f"a{n}", "taskId": f"t{n}", "parentAgentId": None}
            yield {"ts": "2026-11-21T21:05:00.812Z", "type": "hook_event", **hook}
        hook = {"hookEventName": "agent_start", "agentId": f"b{n}", "taskId": f"u{n}", "parentAgentId": "a"}
        yield {"ts": "2026-11-21T21:05:00.812Z", "type": "hook_event", **hook}
        yield event("content_start", "text", text=TEXT)
        call = {"toolCallId": f"c{n}", "toolName": "run_commands"}
        yield event("content_start", "tool", **call, input={"commands": [f"{n} {TEXT}"]})
        yield event("content_update", "tool", **call, update={"stream": "stdout", "chunk": TEXT})
        yield event("content_end", "tool", toolCallId=f"lost{n}", toolName=f"x{n}", output=TEXT)


def documents() -> Iterator[Any]:
    messages: list[dict[str, Any]] = []
    for n in itertools.count():
        call = {"type": "tool_use", "id": f"c{n}", "name": "run_commands", "input": {"commands": [f"{n} {TEXT}"]}}
        messages += [
            {"id": f"u{n}", "role": "user", "content": [{"type": "text", "text": TEXT}], "ts": n},
            {"id": f"a{n}", "role": "assistant", "content": [call], "modelInfo": {"id": f"m{n}"}, "ts": n},
        ]
        del messages[:-20]
        yield {"sessionId": "s", "agent": "lead", "updated_at": "", "messages": list(messages)}
