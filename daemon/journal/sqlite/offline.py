"""Reading a journal file without a daemon, and without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from tooltap.daemon.journal.gaps import Gaps
from tooltap.daemon.journal.interface import OutputSlice, StoredEvent
from tooltap.daemon.journal.sqlite.damage import Damages
from tooltap.daemon.journal.sqlite.file import open_read_only
from tooltap.daemon.journal.sqlite.open_checks import read_gaps
from tooltap.daemon.journal.sqlite.reader import KnownDamage, read, read_output
from tooltap.daemon.journal.sqlite.tables import get_meta
from tooltap.protocol.filters import ALL_EVENTS, Filter

CHUNK_BYTES = 1024 * 1024


class JournalFile:
    """The events and bodies of a file, as far as it is written; a daemon may write to it meanwhile. Raises
    `JournalError`."""

    def __init__(self, path: Path) -> None:
        self._connection = open_read_only(path)
        self.corrupt: Gaps = read_gaps(self._connection, Damages())
        self.latest = int(get_meta(self._connection, "next_seq") or 1) - 1
        self.last_expired = int(get_meta(self._connection, "expired") or 0)

    def close(self) -> None:
        self._connection.close()

    async def read(self, after: int, *, up_to: int | None = None) -> tuple[list[StoredEvent], int]:
        end = self.latest if up_to is None else up_to
        known = KnownDamage(self.corrupt.within(after + 1, end))
        found = read(self._connection, after, end, ALL_EVENTS, CHUNK_BYTES, known)
        for first, last in found.damaged:
            self.corrupt.add(first, last)
        return found.events, found.searched

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return read_output(self._connection, output_id, offset, length, unit)


def event_bodies(path: Path, wanted: Filter) -> Iterator[bytes]:
    """The encoded events, without `seq`. Raises `JournalError`."""
    with closing(open_read_only(path)) as connection:
        latest = int(get_meta(connection, "next_seq") or 1) - 1
        after = 0
        while after < latest:
            found = read(connection, after, latest, wanted, CHUNK_BYTES, KnownDamage())
            after = found.searched
            for event in found.events:
                yield event.body
