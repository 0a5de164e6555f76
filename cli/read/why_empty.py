"""Says why a command has nothing to show: no events yet, or what there is without its filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tooltap.cli.common.commands import did_you_mean
from tooltap.cli.common.connection import request
from tooltap.daemon.formats import counted

NO_EVENTS = "the journal has no events yet; start an agent with `tooltap run -- claude`"
SESSIONS = 1_000
"""Newest sessions whose events are counted."""


def why_nothing(socket: Path | None, filters: dict[str, tuple[str, ...]], *, mode: str, begins_late: bool) -> str:
    """The sentence about `tail` that has shown nothing. `begins_late`: it did not begin with the oldest event."""
    page = request(socket, "sessions", limit=SESSIONS)
    events = sum(one["events"] for one in page["sessions"])
    if not events:
        return NO_EVENTS
    some = f"{'more than ' if page.get('next') else ''}{counted(events, 'event')}"
    given = [f"--{name} {value}" for name, values in filters.items() for value in values]
    if begins_late:
        return f"no event is that new; with `--after start` there are {some}"
    if given:
        return f"no event matches {' '.join(given)}; without filters there are {some}{_meant(filters)}"
    if mode == "text":
        return f"no assistant has said anything; `--mode verbose` shows more of the {some}"
    return f"none of the {some} is shown in this mode; `--mode json` shows all of it"


def _meant(filters: dict[str, tuple[str, ...]]) -> str:
    """What a name was meant to be, among those that tooltap knows."""
    from tooltap.normalizers.catalog.registry import agents
    from tooltap.normalizers.tools.registry import KNOWN_TOOLS

    known = {
        "tool": set(KNOWN_TOOLS),
        "provider": {agent.provider or name for name, agent in agents().items()},
    }
    hints = (did_you_mean(value, known[name]) for name in known for value in filters[name] if value not in known[name])
    return next(filter(None, hints), "")


OPTIONS = {"provider": "agent", "status": "state"}
"""Keys of a search whose options have another name."""


def why_not_found(socket: Path | None, query: str, filters: dict[str, Any], answer: dict[str, Any]) -> str:
    """The sentence about a `search` that has found nothing."""
    if not answer["upto"] and not answer["behind"]:
        return NO_EVENTS
    given = [f"--{OPTIONS.get(name, name)}" for name in filters]
    if given:
        everywhere = request(socket, "search", query=query, limit=1)
        names = {name: tuple(filters.get(name, ())) for name in ("tool", "provider")}
        if total := everywhere.get("total"):
            return f"nothing found with {', '.join(given)}; without there are {counted(total, 'hit')}{_meant(names)}"
    return f"no event has {'all of ' if ' ' in query else ''}{query}"
