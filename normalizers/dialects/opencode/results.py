"""What tools of OpenCode answer beside their text, whichever way it is sent."""

from __future__ import annotations

from typing import Any

__all__ = ["listing"]


def listing(display: dict[str, Any]) -> dict[str, Any] | None:
    """The entries of a folder that was read; where they are not all, from which on, and of how many. `display` is what
    `read` keeps for users; None if it shows no folder."""
    if not isinstance(display.get("entries"), list):
        return None
    more = ("offset", "totalEntries", "truncated") if display.get("truncated") is True else ()
    return {key: display[key] for key in ("entries", *more) if key in display}
