"""The columns of the board as HTML, rendered once for all readers.

A column has a version, which changes with what is in it: a browser says which versions it has, and gets the others.
Nothing in it depends on the time of rendering; the script counts from `data-since`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.board.facts import RECENT_MS, Facts, Gathered, SessionsNow
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.session_head import STATUSES, name_of, project_of
from tooltap.daemon.web.templating import template

__all__ = ["Board", "Column", "Columns"]

STALE_MS = 5_000
"""How old columns may be while no event comes: sessions also end by the passing of time."""


class Column(NamedTuple):
    id: str
    """Of the element. It is derived from the session's id, which may have any characters."""
    version: str
    html: Markup
    call: str | None
    """Key of the call that runs, whose output the column shows."""


class Columns(NamedTuple):
    columns: list[Column]
    summary: Markup
    """How many there are, in words."""


class Board:
    def __init__(self, services: Services, fragments: Fragments, clock: Clock = wall_clock) -> None:
        self._journal = services.journal
        self._sessions = SessionsNow(services.journal, fragments)
        self._clock = clock
        self._lock = anyio.Lock()
        self._made: tuple[tuple[int, int], Columns] | None = None
        """The columns, with the journal's latest event and the time for which they were made."""

    async def columns(self) -> Columns:
        """Return the columns as they are now. Raises `JournalError`."""
        async with self._lock:
            now = self._clock()
            key = self._journal.latest, now // STALE_MS
            if self._made is None or self._made[0] != key:
                gathered = await self._sessions.gather(now)
                self._made = key, await anyio.to_thread.run_sync(_rendered, gathered)
            return self._made[1]


def _rendered(gathered: Gathered) -> Columns:
    columns = [_column(one) for one in gathered.columns]
    waiting = [column.id for column, facts in zip(columns, gathered.columns, strict=True) if facts.asks]
    summary = template(
        "board_summary.html",
        gathered=gathered,
        ended=sum(facts.ended for facts in gathered.columns),
        minutes=RECENT_MS // 60_000,
        first_waiting=waiting[0] if waiting else "columns",
    )
    return Columns(columns, summary)


def _column(facts: Facts) -> Column:
    row = facts.row
    digest = blake2b(row["session"].encode("utf-8", "replace"), digest_size=6).hexdigest()
    tokens = [row.get("inputTokens"), row.get("outputTokens")]
    body = template(
        "board_column.html",
        facts=facts,
        one=row,
        id=digest,
        title=name_of(row),
        project=project_of(row),
        words=STATUSES.get(facts.status, facts.status),
        address=session_url(row["session"]),
        errors=session_url(row["session"], state="failed"),
        event_url=event_url,
        context=_context(row),
        tokens=None if tokens == [None, None] else sum(one or 0 for one in tokens),
    )
    version = blake2b(f"{facts.status} {body}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    html = template("board_section.html", id=digest, version=version, status=facts.status, ended=facts.ended, body=body)
    return Column(f"column-{digest}", version, html, facts.call and facts.call.key)


def _context(row: dict[str, Any]) -> int | None:
    """Return how full the context window is, in percent."""
    used, size = row.get("contextUsed"), row.get("contextSize")
    return None if used is None or not size or used < 0 or size < 0 else min(round(100 * used / size), 100)
