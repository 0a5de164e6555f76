"""The overviews of sessions: read from the journal in parts, remembered, and extended by what is new.

Only events of some kinds are read, in parts, each of which is worked on in a thread: a first look at a long session
takes seconds, in which the daemon does everything else as well.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.show.history import KINDS, History
from tooltap.daemon.show.minimap import drawn
from tooltap.daemon.web.templating import template
from tooltap.protocol.filters import Filter

__all__ = ["LINK", "Overview", "Overviews"]

LINK = "?at={0}#e{0}"
"""Where a bar leads, from the session's page, by the `seq` of its event."""
CHEAP = 2_000
"""Most events of a session whose overview is made before its page is sent. The page of a longer one asks for it."""
PART = 1_048_576
"""Bytes of events that one read of the journal returns."""
REMEMBERED = 100_000
"""Calls and turns of all sessions that are remembered."""
TURN_WEIGHT = 8
"""A turn takes as much memory as so many calls."""


class Overview(NamedTuple):
    minimap: Markup
    outline: Markup


class _Known:
    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        """Of the session. If it changes, some or all of the session was deleted, and the history is rebuilt."""
        self.lock = anyio.Lock()
        self.history = History()
        self.reached = 0
        """`seq` up to which the journal was read."""
        self.rendered: tuple[int, bool, Overview] | None = None

    @property
    def weight(self) -> int:
        return len(self.history.calls) + TURN_WEIGHT * len(self.history.turns)


class Overviews:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def is_cheap(self, session: str, events: int) -> bool:
        """Say whether the overview of a session with so many events can be made while its page waits."""
        known = self._known.get((self._journal.id, session))
        return events <= CHEAP or (known is not None and known.reached > 0)

    async def of(self, session: str, first_seq: int, *, is_live: bool) -> Overview:
        """Return the overview of a session. `first_seq`: of its first event. Raises `JournalError`."""
        known = self._remembered(session, first_seq)
        async with known.lock:
            await self._read_on(session, known)
            found = await anyio.to_thread.run_sync(_rendered, known, session, is_live)
        self._forget()
        return found

    def _remembered(self, session: str, first_seq: int) -> _Known:
        key = self._journal.id, session
        known = self._known.get(key)
        if known is None or known.first_seq != first_seq:
            known = self._known[key] = _Known(first_seq)
        self._known.move_to_end(key)
        return known

    async def _read_on(self, session: str, known: _Known) -> None:
        wanted, latest = Filter(session=(session,), kind=KINDS), self._journal.latest
        reached = max(known.reached, known.first_seq - 1)
        while reached < latest:
            events, reached = await self._journal.read(reached, wanted, up_to=latest, max_bytes=PART)
            await anyio.to_thread.run_sync(known.history.add, events)
            known.reached = reached

    def _forget(self) -> None:
        left = REMEMBERED
        for key, known in reversed(list(self._known.items())):
            left -= known.weight
            if left < 0 and not known.lock.locked():
                del self._known[key]


def _rendered(known: _Known, session: str, is_live: bool) -> Overview:
    former = known.rendered
    if former is not None and former[:2] == (known.history.seq, is_live):
        return former[2]
    shown = drawn(known.history, is_live=is_live)
    overview = Overview(
        template("minimap.html", map=shown, link=LINK),
        template("outline.html", map=shown, link=LINK),
    )
    known.rendered = known.history.seq, is_live, overview
    return overview
