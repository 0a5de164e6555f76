"""Opening a journal: its metadata (table `meta`) is checked, and rewritten where it is damaged or missing.

`JournalFile` reads a file without a daemon, and without changing it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from tooltap.daemon.journal.interface import (
    PINS,
    Gaps,
    JournalError,
    OutputSlice,
    RemovedBody,
    StoredEvent,
    StreamInfo,
    decode_pins,
)
from tooltap.daemon.journal.sqlite import retention, streams
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt
from tooltap.daemon.journal.sqlite.file import (
    HighWater,
    check_side_files,
    index_end,
    index_path,
    open_read_only,
    read_high_water,
)
from tooltap.daemon.journal.sqlite.reader import KnownDamage, read, read_output
from tooltap.daemon.journal.sqlite.tables import get_meta, note_key, row_sum, set_meta, verified_meta
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.traces.recording.own_file import open_own

BACKUP = "backup"
"""Key in `meta` that marks a backup. The first opening removes it, and decides whether the backup continues the journal
it was copied from."""

_log = get_logger("journal")


class Tally(NamedTuple):
    """Row counts; a missing row is detected by them."""

    transactions: int
    """Number of transactions since the journal was created."""
    events: int
    """Number of events stored now."""


class OpenState(NamedTuple):
    """The state of a journal after the checks."""

    mark: HighWater
    tally: Tally
    oldest: int | None
    """`seq` of the oldest event; None if there is none."""
    gaps: Gaps
    """Events that the journal records as lost."""


def check_at_open(connection: sqlite3.Connection, path: Path, damages: Damages) -> OpenState:
    """Check `meta` for consistency with its checksums and the high-water mark, and rewrite it where it is wrong. Raises
    `sqlite3.Error` if the file cannot be read or written."""
    connection.execute("BEGIN IMMEDIATE")
    mark = read_high_water(path)
    name = _text(connection, "id", damages)
    next_seq = _number(connection, "next_seq", damages)
    expired = _number(connection, "expired", damages)
    tally = read_tally(connection)
    backup = verified_meta(connection, BACKUP) is not None
    if name is None:
        name = secrets.token_hex(8) if mark is None else mark.journal
        set_meta(connection, "id", name)
    if mark is not None and mark.journal != name:
        mark = None
    if backup:
        connection.execute("DELETE FROM meta WHERE key=?", (BACKUP,))
        if mark is None:
            # Cursors of the journal it was copied from may be beyond this one's end, or name other events.
            name = secrets.token_hex(8)
            set_meta(connection, "id", name)
            _log.warning("the journal is a backup, and is a new journal for subscribers", journal=str(path))
    if expired is None:
        expired = 0 if mark is None else mark.expired
        set_meta(connection, "expired", expired)
    if next_seq is None:
        next_seq = max(_newest(connection) + 1, 1 if mark is None else mark.next_seq)
        set_meta(connection, "next_seq", next_seq)
    if tally is None:
        damages.add("meta", "tally")
        tally = Tally(0 if mark is None else mark.transactions, _count(connection))
    if mark is not None and mark.transactions > tally.transactions:
        lost = mark.transactions - tally.transactions
        damages.add("transactions", f"{lost} after {tally.transactions}")
        _log.error(
            "transactions are gone", transactions=lost, events=max(mark.next_seq - next_seq, 0), journal=str(path)
        )
        if mark.next_seq > next_seq:
            add_gap(connection, next_seq, mark.next_seq - 1)
            next_seq = mark.next_seq
            set_meta(connection, "next_seq", next_seq)
        expired = max(expired, min(mark.expired, next_seq - 1))
        set_meta(connection, "expired", expired)
        tally = tally._replace(transactions=mark.transactions)
    indexed = indexed_up_to(path, name)
    if indexed >= next_seq:
        damages.add("transactions", f"the events {next_seq} to {indexed}, which were indexed")
        _log.error("events that were indexed are gone", events=indexed - next_seq + 1, journal=str(path))
        add_gap(connection, next_seq, indexed)
        next_seq = indexed + 1
        set_meta(connection, "next_seq", next_seq)
    write_tally(connection, tally)
    gaps = read_gaps(connection, damages)
    oldest = _oldest(connection, next_seq, gaps)
    connection.execute("COMMIT")
    return OpenState(HighWater(name, tally.transactions, next_seq, expired), tally, oldest, gaps)


def indexed_up_to(path: Path, journal: str) -> int:
    """The last `seq` in the search index beside the journal `path`, 0 if there is no index of `journal` or it cannot be
    read. The index is fed from the journal: if it is ahead, the journal's end is lost, even if the high-water mark was
    lost with it, or was restored with an older copy."""
    index = index_path(path)
    try:
        check_side_files(index)
        os.close(open_own(index, os.O_RDONLY))
        with closing(sqlite3.connect(f"{index.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (end,) = connection.execute("SELECT value FROM meta WHERE key='end'").fetchone()
        upto = int(end.partition(" ")[0])
    except (JournalError, OSError, sqlite3.Error, TypeError, ValueError, AttributeError):
        return 0
    return upto if end == index_end(journal, upto) else 0


def read_tally(connection: sqlite3.Connection) -> Tally | None:
    """Read the row counts; None if they are damaged."""
    text = verified_meta(connection, "tally")
    if not isinstance(text, str):
        return None
    transactions, events = map(int, text.split())
    return Tally(transactions, events)


def write_tally(connection: sqlite3.Connection, tally: Tally) -> None:
    set_meta(connection, "tally", f"{tally.transactions} {tally.events}")


def add_gap(connection: sqlite3.Connection, first: int, last: int) -> None:
    row = (first, last)
    connection.execute("INSERT OR REPLACE INTO gaps VALUES (?, ?, ?)", (*row, row_sum("gaps", *row)))


def read_gaps(connection: sqlite3.Connection, damages: Damages) -> Gaps:
    gaps = Gaps()
    for *row, checksum in damages.rows(connection, "gaps", "SELECT first, last, checksum FROM gaps{}", ()):
        if damages.is_intact("gaps", row, checksum):
            gaps.add(*row)
    return gaps


def _text(connection: sqlite3.Connection, key: str, damages: Damages) -> str | None:
    found = verified_meta(connection, key)
    if isinstance(found, str):
        return found
    damages.add("meta", key)
    return None


def _number(connection: sqlite3.Connection, key: str, damages: Damages) -> int | None:
    found = verified_meta(connection, key)
    if isinstance(found, int):
        return found
    damages.add("meta", key)
    return None


def _newest(connection: sqlite3.Connection) -> int:
    """The highest `seq` that can be read from the table of events."""
    for order in ("DESC", "ASC"):
        newest = 0
        try:
            cursor = connection.execute(f"SELECT seq FROM events ORDER BY seq {order}")
            for (seq,) in cursor:
                newest = max(newest, seq)
                if order == "DESC":
                    break
            cursor.close()
            return newest
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise
    return newest


def _count(connection: sqlite3.Connection) -> int:
    try:
        return int(connection.execute("SELECT count(*) FROM events NOT INDEXED").fetchone()[0])
    except sqlite3.Error as error:
        if not is_corrupt(error):
            raise
        return 0


def _oldest(connection: sqlite3.Connection, next_seq: int, gaps: Gaps) -> int | None:
    try:
        return connection.execute("SELECT min(seq) FROM events").fetchone()[0]  # type: ignore[no-any-return]
    except sqlite3.Error as error:
        if not is_corrupt(error):
            raise
    found = read(connection, 0, next_seq - 1, ALL_EVENTS, 1, KnownDamage(list(gaps)))
    return found.events[0].seq if found.events else None


# -- reading without a daemon -----------------------------------------------------------------------------------------

CHUNK_BYTES = 1024 * 1024


class JournalFile:
    """Read-only access to the events and output bodies committed to a file; a daemon may write to it meanwhile. Raises
    `JournalError`."""

    def __init__(self, path: Path) -> None:
        self._connection = open_read_only(path)
        self.corrupt: Gaps = read_gaps(self._connection, Damages())
        self.latest = int(get_meta(self._connection, "next_seq") or 1) - 1

    @property
    def last_expired(self) -> int:
        return int(get_meta(self._connection, "expired") or 0)

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

    async def removed_bodies(self, output_ids: Collection[str]) -> dict[str, RemovedBody]:
        return retention.removed_bodies(self._connection, output_ids)

    async def streams(self) -> list[StreamInfo]:
        return streams.streams(self._connection, None, None, Damages())

    async def pinned(self) -> frozenset[str]:
        found = verified_meta(self._connection, note_key(PINS))
        return decode_pins(found if isinstance(found, bytes) else None)


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
