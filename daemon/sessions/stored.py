"""Reads the events of sessions from a journal: all of them, also those that are stored under earlier ids.

Everything in the daemon that shows a session reads it here. What asks a daemon over its socket does the same with
`stored_names` and `is_of`, which have the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.listing import SessionFilter, is_of, stored_names
from tooltap.protocol.filters import ALL_EVENTS, Filter


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
        """Look the sessions up, by their ids. Raises `JournalError`."""
        rows = await journal.sessions(limit=len(sessions), wanted=SessionFilter(session=tuple(sessions)))
        known = {row["session"] for row in rows}
        return cls(journal, [*rows, *({"session": name} for name in sessions if name not in known)])

    async def read(
        self, after: int, wanted: Filter = ALL_EVENTS, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Raises `JournalError`."""
        wanted, own = self._named(wanted), list[StoredEvent]()
        while not own:
            found, after = await self._journal.read(after, wanted, up_to=up_to, max_bytes=max_bytes)
            own = self._own(found)
            if not found:
                break
        return own, after

    async def read_back(
        self, before: int, wanted: Filter = ALL_EVENTS, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Raises `JournalError`."""
        wanted, own = self._named(wanted), list[StoredEvent]()
        while not own:
            found, before = await self._journal.read_back(before, wanted, limit=limit, max_bytes=max_bytes)
            own = self._own(found)
            if not found:
                break
        return own, before

    def _named(self, wanted: Filter) -> Filter:
        return msgspec.structs.replace(wanted, session=self._names)

    def _own(self, found: list[StoredEvent]) -> list[StoredEvent]:
        if not self._have_earlier_ids:
            return found

        def is_own(name: str, seq: int) -> bool:
            return any(is_of(row, name, seq) for row in self._rows[name])

        return [one for one in found if is_own(one.head.session, one.seq)]
