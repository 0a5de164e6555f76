"""What the table of sessions shows at first: how many sessions there are of which kind, and the newest of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.filter import SessionFilter, SessionPlace
from tooltap.daemon.web.page.home.query import HomeQuery, RowsQuery
from tooltap.daemon.web.page.home.rows import PART, parts_of
from tooltap.daemon.web.page.session_head import STATUSES, folder_name

__all__ = ["Counts", "count", "fetch_rows"]

AT_ONCE = 2 * PART
"""Rows of the first page, and of each that follows."""
REFILLED = 4 * PART
"""Most rows of a part that is fetched again: it may have grown."""
CHOICES = 60
"""Most projects to choose from: those with the most sessions."""


class Counts(NamedTuple):
    wanted: SessionFilter
    by_status: dict[str, int]
    """Sessions by status, and `all` of them, that the other filters let through."""
    waiting: int
    """Sessions that wait for a person, whatever the filters say."""
    everything: int
    """All sessions."""
    agents: list[str]
    projects: list[str]

    @property
    def shown(self) -> int:
        """How many sessions all filters let through."""
        statuses = self.wanted.status
        return self.by_status["all"] if statuses is None else sum(self.by_status[one] for one in set(statuses))


async def count(journal: Journal, query: HomeQuery | Any) -> Counts:
    """Count sessions by the journal's index: no row is decoded. Raises `JournalError`."""
    every = await journal.count_sessions()
    wanted = query.wanted(every["project"])
    others = wanted._replace(status=None)
    found = every if others == SessionFilter() else await journal.count_sessions(others)
    by_status = {status: found["status"].get(status, 0) for status in STATUSES}
    return Counts(
        wanted,
        {"all": sum(by_status.values()), **by_status},
        every["status"].get("waiting", 0),
        sum(every["status"].values()),
        sorted({*every["provider"], *query.agent}),
        sorted({*list(dict.fromkeys(map(folder_name, every["project"])))[:CHOICES], *query.project} - {""}),
    )


async def fetch_rows(journal: Journal, query: HomeQuery, wanted: SessionFilter) -> tuple[Markup, str | None]:
    """Return the rows as HTML, and the place of the last one if older ones follow. Raises `JournalError`."""
    before = None if query.before is None else SessionPlace.of_cursor(query.before)
    last = SessionPlace.of_cursor(query.last) if isinstance(query, RowsQuery) and query.last is not None else None
    most = AT_ONCE if last is None else REFILLED
    rows = await journal.sessions(limit=most + 1, before=before, order="time", wanted=wanted)
    more = len(rows) > most
    rows = rows[:most]
    if last is not None:
        inside = [one for one in rows if _place(one).key("time") >= last.key("time")]
        rows, more = inside, more or len(inside) < len(rows)
    html = await anyio.to_thread.run_sync(lambda: parts_of(rows, query.before, more=more))
    return html, _place(rows[-1]).cursor if more and rows else None


def _place(row: dict[str, Any]) -> SessionPlace:
    return SessionPlace(row["lastSeq"], row.get("lastTs") or 0)
