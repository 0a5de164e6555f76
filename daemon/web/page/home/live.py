"""The live table of sessions: server-sent events that say what has changed, at most once a second.

    row     HTML of the row of a session that is in the table now
    gone    the name of a session that the filters do not let through (any more)
    counts  {all, running, …, waits, total}: what stands on the pills; `waits`: sessions that wait, whatever the filters
    asks    HTML of what waits for a person
    renew   so much has changed that the table had better be fetched again

The `id` of a message is the `seq` up to which the reader has all changes then. The server does not know which rows a
browser holds: the script leaves out those that are in no part of the table that it has.
"""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from tooltap.daemon.formats import amount, dollars
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.system.sanitize import visible
from tooltap.daemon.web.http.feed import Arrived
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.http.sse import EventStream, message
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.home.asks import what_waits
from tooltap.daemon.web.page.home.listing import Counts, count
from tooltap.daemon.web.page.home.query import LiveRowsQuery
from tooltap.daemon.web.page.home.rows import row_html
from tooltap.daemon.web.page.home.totals import GOING_ON, Total, Totals
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Subscribe

__all__ = ["LiveRows", "total_words"]

PERIOD = 1.0
"""Seconds between two looks, if there are new events."""
IDLE_PERIOD = 5.0
"""Seconds between two looks if there are none: an agent that ends changes the status of its session."""
MOST_ROWS = 40
"""More changed sessions than this at once are not sent one by one."""
MOST_GOING_ON = 250
REMEMBERED = 1_000
NO_EVENTS = Filter(session=("",))
"""A subscription needs a filter. The table is built from the sessions' rows, and needs no events."""


class LiveRows:
    """The live table of one reader."""

    def __init__(self, services: Services, query: LiveRowsQuery, fragments: Fragments, totals: Totals) -> None:
        self._services = services
        self._journal = services.journal
        self._query = query
        self._fragments = fragments
        self._totals = totals
        self._seq = -1
        self._looked_at = 0.0
        self._going_on: set[str] = set()
        self._rows: dict[str, str] = {}
        """Session -> the row that was sent last."""
        self._counts = ""
        self._asks = ""

    def stream(self, after: int | None) -> EventStream:
        """Return the response. `after`: the `seq` up to which the reader has all changes. Raises `WebError`."""
        self._seq = self._journal.latest if after is None else after
        return EventStream(self._services, Subscribe(after="now", filter=NO_EVENTS), _nothing, self._changes)

    async def _changes(self) -> bytes:
        latest, now = self._journal.latest, anyio.current_time()
        if now - self._looked_at < (PERIOD if latest != self._seq else IDLE_PERIOD):
            return b""
        self._looked_at = now
        counts = await count(self._journal, self._query)
        rows, is_renewed = await self._changed(latest)
        found = (
            [("renew", "")] if is_renewed else await anyio.to_thread.run_sync(self._row_messages, rows, counts.wanted)
        )
        self._seq = latest
        total = await self._totals.of(counts.wanted, counts.everything)
        if (words := _counts(counts, total)) != self._counts:
            self._counts = words
            found.append(("counts", words))
        asks = str(await what_waits(self._journal, self._fragments)) if counts.waiting or self._asks else ""
        if asks != self._asks:
            self._asks = asks
            found.append(("asks", asks))
        return b"".join(message(name.encode(), data, latest) for name, data in found)

    async def _changed(self, latest: int) -> tuple[list[dict[str, Any]], bool]:
        """Return the rows that have changed, the one with the latest event first; and whether there are too many, or
        the journal was replaced."""
        if self._seq > latest:
            return [], True
        changed: list[dict[str, Any]] = []
        if self._seq < latest:
            wanted = SessionFilter(changed_after=self._seq)
            changed = await self._journal.sessions(limit=MOST_ROWS + 1, wanted=wanted)
        going_on = await self._journal.sessions(
            limit=MOST_GOING_ON, order="time", wanted=SessionFilter(status=GOING_ON)
        )
        names = {one["session"] for one in going_on}
        ended = self._going_on - names - {one["session"] for one in changed}
        if ended:
            wanted = SessionFilter(session=tuple(sorted(ended)))
            changed += await self._journal.sessions(limit=len(ended), wanted=wanted)
        self._going_on = names
        return changed, len(changed) > MOST_ROWS

    def _row_messages(self, rows: list[dict[str, Any]], wanted: SessionFilter) -> list[tuple[str, str]]:
        """Return the messages, the row with the latest event last, so that each is put at its place."""
        found = []
        for row in reversed(rows):
            name = row["session"]
            html = str(row_html(row)) if wanted.matches(row) else ""
            if self._rows.pop(name, None) != html:
                found.append(("row", html) if html else ("gone", visible(name)))
            self._rows[name] = html
        for name in list(self._rows)[:-REMEMBERED]:
            del self._rows[name]
        return found


def total_words(total: Total | None) -> str:
    """`$3.20 · 1.8 M tokens`; empty if it is not known yet."""
    if total is None:
        return ""
    cost = f"{dollars(total.cost)} · " if total.cost else ""
    return f"{cost}{amount(total.tokens)} tokens"


def _counts(counts: Counts, total: Total) -> str:
    values = {**counts.by_status, "shown": counts.shown, "waits": counts.waiting, "total": total_words(total)}
    return msgspec.json.encode(values).decode()


async def _nothing(_: Arrived) -> bytes:
    return b""
