"""The names of tools and the titles of calls as people read them; and which calls only look at something."""

from __future__ import annotations

FOLDED = ("read", "search")
"""Families of calls that are folded: they only look at something."""


def tool_name(name: str) -> str:
    """Return the name to show: `server · tool` for an MCP tool, if its name can be split in only one way."""
    parts = name.split("__")
    return f"{parts[1]} · {parts[2]}" if len(parts) == 3 and parts[0] == "mcp" and parts[1] and parts[2] else name


def distinct_title(title: str | None, name: str) -> str:
    """Return the provider's title of a call; empty if it only repeats the name of the tool."""
    return "" if title is None or title.lower() == name.lower() else title
