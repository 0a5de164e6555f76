"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():

        def line(kind: str, n: int = n, agent: str | None = None, **data: Any) -> dict[str, Any]:
            common = {"id": f"{kind}{n}", "timestamp": "2026-11-21T20:58:02.210Z", "parentId": None}
            return {"type": kind, "data": data, **common, **({"agentId": agent} if agent else {})}

        if n % 50 == 0:
            yield line("user.message", content=TEXT, interactionId=f"i{n}", delivery="idle")
        yield line("session.mcp_servers_loaded", servers=[{"name": f"server{n}", "status": "connected"}])
        yield line("session.tools_updated", model=f"m{n}")
        yield line("assistant.message_delta", messageId=f"m{n}", deltaContent=TEXT)
        call = {"toolCallId": f"c{n}", "name": "bash", "arguments": {"command": f"{n} {TEXT}"}}
        yield line("assistant.message", messageId=f"n{n}", content=TEXT, toolRequests=[call])
        yield line("subagent.started", agent=f"a{n}", toolCallId=f"c{n}", agentName="x")
        yield line("assistant.reasoning", n, f"a{n}", reasoningId=f"r{n}", content=f"{n} {TEXT}")
        yield line("tool.shell_output", toolCallId=f"c{n}", stream="stdout", text=TEXT)
        child = {"toolCallId": f"d{n}", "toolName": "grep", "arguments": {"pattern": TEXT}}
        yield line("tool.execution_start", n, f"a{n}", **child)
        yield line("tool.execution_complete", toolCallId=f"lost{n}", success=True, result={"content": TEXT})
        yield line("permission.requested", requestId=f"p{n}", permissionRequest={"toolCallId": f"c{n}"})
