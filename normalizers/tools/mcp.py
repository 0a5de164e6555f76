"""Tools of MCP servers, `mcp__<server>__<tool>`. Only the server knows their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.tools.payload import Payload, keys_and_text

PREFIX = "mcp__"


def functions(name: str) -> tuple[Callable[[Payload, str], Payload], Callable[[Any, str], Payload]]:
    """The functions that make the input and the result of the MCP tool `name`.

    `_mcp` states server and tool if the name has exactly one separator; otherwise the split is ambiguous.
    """
    parts = name.removeprefix(PREFIX).split("__")
    identity = {"serverId": parts[0], "toolId": parts[1]} if len(parts) == 2 and all(parts) else None

    def tool_input(payload: Payload, raw_name: str) -> Payload:
        return {**payload, "_mcp": identity}

    def tool_output(value: Any, raw_name: str) -> Payload:
        payload, text = keys_and_text(value)
        payload["_mcp"] = identity
        if text is not None:
            payload.setdefault("text", text)
        return payload

    return tool_input, tool_output
