"""Tools of MCP servers, `mcp__<server>__<tool>`: the arguments are the server's own business."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools.payload import Family, Payload, keys_and_text

__all__ = ["PREFIX", "family"]

PREFIX = "mcp__"


def family(name: str) -> Family:
    """The payloads of the tool called `name`.

    `_mcp` names server and tool where the name has just one place to part them; with more, either could contain it.
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

    return Family(tool_input, tool_output)
