"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def opencode_run() -> Iterator[Any]:
    for n in itertools.count():
        session = f"ses_{n // 50}"

        def line(kind: str, n: int = n, session: str = session, **part: Any) -> dict[str, Any]:
            part = {"id": f"prt_{kind}{n}", "messageID": f"msg_{n}", "sessionID": session, **part}
            return {"type": kind, "timestamp": 1795294033788, "sessionID": session, "part": part}

        yield line("step_start", type="step-start")
        yield line("text", type="text", text=TEXT)
        ended = {"status": "completed", "input": {"command": TEXT}, "output": TEXT, "metadata": {"exit": 0}}
        yield line("tool_use", type="tool", tool="bash", callID=f"c{n}", state=ended)
        opened = {"status": "running", "input": {"command": TEXT}, "metadata": {"output": TEXT}}
        yield line("tool_use", type="tool", tool="bash", callID=f"open{n}", state=opened)
        tokens = {"input": n, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        yield line("step_finish", type="step-finish", reason="tool-calls", tokens=tokens, cost=0)


def opencode_bus() -> Iterator[Any]:
    for n in itertools.count():
        session = f"ses_{n // 5}"

        def event(kind: str, session: str = session, **properties: Any) -> dict[str, Any]:
            return {"type": kind, "properties": {"sessionID": session, **properties}}

        def part(kind: str, n: int = n, **fields: Any) -> dict[str, Any]:
            fields = {"id": f"prt_{kind}{n}", "messageID": f"msg_{n}", "type": kind, **fields}
            return event("message.part.updated", part=fields)

        yield {"POST": f"/session/{session}/prompt_async", "body": {"parts": [{"type": "text", "text": TEXT}]}}
        yield event("session.created", info={"id": session, "title": f"{n} {TEXT}", "directory": f"/w{n}"})
        yield event("session.created", info={"id": f"child_{n}", "parentID": session}, sessionID=f"child_{n}")
        yield event("message.updated", info={"id": f"msg_{n}", "role": "assistant"})
        yield part("text", text="", time={"start": 1})
        yield event("message.part.delta", messageID=f"msg_{n}", partID=f"prt_text{n}", field="text", delta=TEXT)
        state = {"status": "running", "input": {"command": TEXT}, "metadata": {"output": TEXT}}
        yield part("tool", tool="bash", callID=f"c{n}", state=state)
        spawned = {"status": "running", "input": {"prompt": TEXT}, "metadata": {"sessionId": f"child_{n}"}}
        yield part("tool", tool="task", callID=f"t{n}", state=spawned)
        yield part("step-finish", reason="tool-calls", tokens={"input": n, "output": 1, "reasoning": 0})
        yield event("todo.updated", todos=[{"content": f"{n} {TEXT}", "status": "pending"}])
        yield event("permission.asked", id=f"per_{n}", permission="bash", tool={"callID": f"p{n}"})
        yield event("question.asked", id=f"que_{n}", questions=[{"question": TEXT, "options": []}])
        yield event("permission.replied", requestID=f"never_{n}", reply="once")
        patch = f"--- a\n+++ b\n@@ -1 +1 @@\n-{n}\n+{TEXT * 20}\n"
        yield event("session.diff", diff=[{"file": f"{n}", "patch": patch}])
        yield event("message.removed", messageID=f"gone_{n}")
        yield {"type": "mcp.tools.changed", "properties": {"server": f"server{n}"}}


def opencode_db() -> Iterator[Any]:
    for n, event in enumerate(opencode_bus()):
        if "properties" in event:
            session, data = event["properties"].get("sessionID", ""), event["properties"]
            yield {"id": f"evt_{n}", "aggregate_id": session, "seq": n, "type": f"{event['type']}.1", "data": data}
