"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():
        session = f"session{n // 5}"

        def update(update: str, session: str = session, **more: Any) -> dict[str, Any]:
            params = {"sessionId": session, "update": {"sessionUpdate": update, **more}}
            return {"jsonrpc": "2.0", "method": "session/update", "params": params}

        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": TEXT}]}
        yield {"jsonrpc": "2.0", "id": f"q{n}", "method": "session/prompt", "params": prompt}
        yield {"jsonrpc": "2.0", "id": f"f{n}", "method": "fs/read_text_file", "params": {"path": TEXT}}
        yield {"jsonrpc": "2.0", "id": f"t{n}", "method": "terminal/create", "params": {"command": TEXT}}
        yield {"jsonrpc": "2.0", "id": f"t{n}", "result": {"terminalId": f"term{n}"}}
        yield update("agent_message_chunk", content={"type": "text", "text": TEXT}, messageId=f"m{n}")
        yield update("tool_call", toolCallId=f"c{n}", title=TEXT, kind="execute", rawInput={"command": TEXT * 100})
        diff = {"type": "diff", "path": f"/w/{n}", "oldText": TEXT * 20, "newText": TEXT * 20}
        yield update(
            "tool_call_update", toolCallId=f"c{n}", content=[diff, {"type": "terminal", "terminalId": f"x{n}"}]
        )
        yield update("tool_call_update", toolCallId=f"d{n}", status="in_progress", rawInput={"n": n})
        yield update("plan", entries=[{"content": f"{n} {TEXT}", "status": "pending"}])
        yield update("session_info_update", title=f"{n} {TEXT}")
        yield update("available_commands_update", availableCommands=[{"name": f"{n}"}])
        options = [{"optionId": f"o{n}", "name": TEXT, "kind": "allow_once"}]
        asked = {"sessionId": session, "toolCall": {"toolCallId": f"p{n}", "title": TEXT}, "options": options}
        yield {"jsonrpc": "2.0", "id": f"p{n}", "method": "session/request_permission", "params": asked}
