"""What a page says of a session that the journal does not have: which sessions may have been meant."""

from __future__ import annotations

from typing import Any

import anyio

from tooltap.daemon.did_you_mean import similar
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.web.page.session_head import name_of

__all__ = ["near_sessions"]

LOOKED_AT = 500
"""The latest sessions, among which it looks."""
MOST = 5


async def near_sessions(journal: Journal, wanted: str) -> list[dict[str, Any]]:
    """Return the sessions whose id or title is like this, the likeliest first. Raises `JournalError`."""
    rows = await journal.sessions(limit=LOOKED_AT, order="time")
    return await anyio.to_thread.run_sync(_near, rows, wanted)


def _near(rows: list[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for name in {row["session"], name_of(row)}:
            by_name.setdefault(name, []).append(row)
    found = [row for name in similar(wanted, by_name) for row in by_name[name]]
    words = wanted.casefold().split()
    titled = [row for row in rows if words and all(word in name_of(row).casefold() for word in words)]
    return list({row["session"]: row for row in [*titled, *found]}.values())[:MOST]
