"""Reads the events of sessions from a journal: all of them, also those that are stored under earlier ids.

Everything in the daemon that shows a session reads it here. What asks a daemon over its socket does the same with
`stored_names` and `is_of`, which have the rule.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tooltap.daemon.journal.interface import Journal, JournalError, StoredEvent
from tooltap.daemon.sessions.listing import SessionFilter, is_of, stored_names, why_lost
from tooltap.protocol.filters import ALL_EVENTS, Filter

MOST_SAME = 1_000
"""Maximum sessions that are looked up by an id that they had earlier: the newest."""


class SessionEvents:
    """Events of some sessions. Its methods are those of a `Journal`, and do not look at `session` in a filter."""

    def __init__(self, journal: Journal, rows: Iterable[Mapping[str, Any]]) -> None:
        """`rows`: of the sessions, as in a `sessions` reply; of a session whose row is lost, at least `session`."""
        self._journal = journal
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        """Id under which events are stored -> the sessions that may have some of them."""
        for row in rows:
            for name in stored_names(row):
                self._rows.setdefault(name, []).append(row)
        self._names = tuple(self._rows)
        self._have_earlier_ids = any("aliases" in row for its in self._rows.values() for row in its)

    @classmethod
    async def of(cls, journal: Journal, sessions: Sequence[str]) -> SessionEvents:
        """Look the sessions up, by their ids or by ids that they had earlier. Raises `JournalError`."""
        rows = await journal.sessions(limit=len(sessions), wanted=SessionFilter(session=tuple(sessions)))
        known = {name for row in rows for name in stored_names(row)}
        if unknown := tuple(name for name in sessions if name and name not in known):
            rows += await journal.sessions(limit=MOST_SAME, wanted=SessionFilter(earlier_id=unknown))
        present = {row["session"] for row in rows}
        return cls(journal, [*rows, *({"session": name} for name in sessions if name not in present)])

    @property
    def present_ids(self) -> list[str]:
        """Return the ids that the sessions have now, under which their further events are stored."""
        return list({row["session"]: None for its in self._rows.values() for row in its})

    def sessions_of(self, name: str) -> list[str]:
        """Return the present ids of the sessions that have or had this id; of those that had it only if none has."""
        its = self._rows[name]
        known = [row["session"] for row in its if "lastSeq" in row]
        return [name] if name in known or not known else known

    @property
    def last_earlier(self) -> int:
        """Return the `seq` up to which events may be stored under earlier ids; 0 if no session has had any."""
        return max(
            (seq for its in self._rows.values() for row in its for seq in row.get("aliases", {}).values()), default=0
        )

    async def read(
        self, after: int, wanted: Filter = ALL_EVENTS, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Raises `JournalError`."""
        ask = partial(self._journal.read, wanted=self._named(wanted), up_to=up_to, max_bytes=max_bytes)
        return await self._until_own(ask, after)

    async def read_back(
        self, before: int, wanted: Filter = ALL_EVENTS, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Raises `JournalError`."""
        ask = partial(self._journal.read_back, wanted=self._named(wanted), limit=limit, max_bytes=max_bytes)
        return await self._until_own(ask, before)

    async def _until_own(
        self, ask: Callable[[int], Awaitable[tuple[list[StoredEvent], int]]], place: int
    ) -> tuple[list[StoredEvent], int]:
        """Read on from `place` until there are events of these sessions, or nothing is left."""
        own = list[StoredEvent]()
        while not own:
            found, place = await ask(place)
            own = self._own(found)
            if not found:
                break
        return own, place

    def _named(self, wanted: Filter) -> Filter:
        return msgspec.structs.replace(wanted, session=self._names)

    def _own(self, found: list[StoredEvent]) -> list[StoredEvent]:
        if not self._have_earlier_ids:
            return found

        def is_own(name: str, seq: int) -> bool:
            return any(is_of(row, name, seq) for row in self._rows[name])

        return [one for one in found if is_own(one.head.session, one.seq)]


async def present_ids(journal: Journal, names: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the sessions that have one of these ids, or, for one that none has, of those that had it
    earlier, the newest first. An id that is not known stays. Raises `JournalError`."""
    stored = await SessionEvents.of(journal, names)
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(stored.sessions_of(name))
    return tuple(found)


async def present_id(journal: Journal, name: str) -> str:
    """Return the first of `present_ids`. Raises `JournalError`."""
    return (await present_ids(journal, (name,)))[0]


def check_not_lost(journal: Journal, session: str) -> None:
    """To be called before a session that was not found is called unknown. Raises `JournalError` if the journal may have
    lost it."""
    if lost := why_lost(journal.statistics(), session):
        raise JournalError(lost)
