"""Which sessions come from a session, for the head of its page and the tab *Details*."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.listing import WITH_CONTENT, SessionFilter, name_of, successors_of
from tooltap.daemon.web.page.addresses import session_url

MOST = 100
"""Maximum sessions that are listed as coming from one."""
REMEMBERED = 100
"""Sessions whose successors are remembered."""


class Link(NamedTuple):
    name: str
    url: str


class Successors:
    """The sessions that were forked from a session, continue it, or were started by it. To find them the rows of all
    sessions are read, so their names are remembered, and after that only those that have changed are read."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: OrderedDict[tuple[str, str], tuple[int, list[str]]] = OrderedDict()
        """Journal and session -> the `seq` up to which the rows were read, and the names."""

    async def of(self, session: str) -> list[tuple[str, list[Link]]]:
        """Return links to them, the latest active first, in groups: what they are to the session (`forked as`), and the
        links. Raises `JournalError`."""
        names = await self._names(session)
        if not names:
            return []
        rows = await self._journal.sessions(limit=MOST, order="time", wanted=SessionFilter(session=tuple(names)))
        groups = successors_of(session, rows)
        return [(words, [Link(name_of(one), session_url(one["session"])) for one in of]) for words, of in groups]

    async def _names(self, session: str) -> list[str]:
        latest, key = self._journal.latest, (self._journal.id, session)
        reached, names = self._known.get(key, (0, []))
        if reached != latest:
            wanted = WITH_CONTENT._replace(origin=(session,), changed_after=reached)
            found = await self._journal.sessions(limit=MOST, order="time", wanted=wanted)
            names = list(dict.fromkeys([*(one["session"] for one in found), *names]))[:MOST]
            self._known[key] = latest, names
            self._known.move_to_end(key)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return names
