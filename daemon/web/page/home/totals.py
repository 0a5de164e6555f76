"""What the sessions that are shown cost in all.

The figures of each session are kept, because to read those of thousands of sessions takes a second or more; afterwards
only those are read that have changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.filter import SessionFilter, place_of
from tooltap.daemon.web.page.session_head import status_of

__all__ = ["Total", "Totals"]

PART = 250
GOING_ON = ("running", "waiting")
"""What can become another status without an event of the session."""
MOST_NAMED = 250


class Total(NamedTuple):
    cost: float
    tokens: int


class Totals:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows: dict[str, dict[str, Any]] = {}
        """Session -> what filters look at, and its figures."""
        self._seq = 0
        """They are those after this event."""
        self._lock = anyio.Lock()

    def known(self, wanted: SessionFilter) -> Total | None:
        """Return the total without reading anything; None if there may be newer figures."""
        return self._sum(wanted) if self._seq == self._journal.latest else None

    async def of(self, wanted: SessionFilter, everything: int) -> Total:
        """Return the total of these sessions. `everything`: how many there are. Raises `JournalError`."""
        async with self._lock:
            if len(self._rows) > everything:  # some were deleted
                self._rows.clear()
                self._seq = 0
            if (latest := self._journal.latest) != self._seq:
                await self._read(SessionFilter(changed_after=self._seq))
                self._seq = latest
            going_on = [name for name, row in self._rows.items() if row["status"] in GOING_ON]
            if going_on:
                await self._read(SessionFilter(session=tuple(going_on[-MOST_NAMED:])))
        return await anyio.to_thread.run_sync(self._sum, wanted)

    async def _read(self, wanted: SessionFilter) -> None:
        before = None
        while True:
            part = await self._journal.sessions(limit=PART, before=before, wanted=wanted)
            for row in part:
                self._rows[row["session"]] = _kept(row)
            if len(part) < PART:
                return
            before = place_of(part[-1])

    def _sum(self, wanted: SessionFilter) -> Total:
        rows = [row for row in list(self._rows.values()) if wanted.matches(row)]
        return Total(sum(row["cost"] for row in rows), sum(row["tokens"] for row in rows))


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    cost = row.get("costUsd")
    return {
        "session": row["session"],
        "status": status_of(row),
        "provider": row["provider"],
        "project": row.get("project"),
        "lastTs": row.get("lastTs") or 0,
        "lastSeq": row["lastSeq"],
        "cost": cost if cost is not None and cost > 0 else 0.0,
        "tokens": (row.get("inputTokens") or 0) + (row.get("outputTokens") or 0),
    }
