"""What a journal says of itself when it is opened: made consistent where a part of that is damaged or gone."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path
from typing import NamedTuple

from tooltap.daemon.journal.gaps import Gaps
from tooltap.daemon.journal.sqlite.checksums import row_sum
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt
from tooltap.daemon.journal.sqlite.events import Known, read
from tooltap.daemon.journal.sqlite.tables import set_meta, verified_meta
from tooltap.daemon.journal.sqlite.tip import Tip, read_tip
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.filters import ALL_EVENTS

__all__ = ["BACKUP", "Settled", "Tally", "add_gap", "read_gaps", "read_tally", "settle", "write_tally"]

BACKUP = "backup"
"""In `meta` of a copy: whoever opens it first decides whether it continues the journal that it was copied from."""

_log = get_logger("journal")


class Tally(NamedTuple):
    transactions: int
    events: int
    """How many there are: so it is noticed when one is gone."""


class Settled(NamedTuple):
    tip: Tip
    tally: Tally
    oldest: int | None
    gaps: Gaps


def settle(connection: sqlite3.Connection, path: Path, damages: Damages) -> Settled:
    """Raises `sqlite3.Error` if nothing can be read or written."""
    connection.execute("BEGIN IMMEDIATE")
    tip = read_tip(path)
    name = _text(connection, "id", damages)
    next_seq = _number(connection, "next_seq", damages)
    expired = _number(connection, "expired", damages)
    tally = read_tally(connection)
    backup = verified_meta(connection, BACKUP) is not None
    if name is None:
        name = secrets.token_hex(8) if tip is None else tip.journal
        set_meta(connection, "id", name)
    if tip is not None and tip.journal != name:
        tip = None
    if backup:
        connection.execute("DELETE FROM meta WHERE key=?", (BACKUP,))
        if tip is None:
            # Cursors of the journal it was copied from may be beyond this one's end, or name other events.
            name = secrets.token_hex(8)
            set_meta(connection, "id", name)
            _log.warning("the journal is a backup, and is a new journal for subscribers", journal=str(path))
    if expired is None:
        expired = 0 if tip is None else tip.expired
        set_meta(connection, "expired", expired)
    if next_seq is None:
        next_seq = max(_newest(connection) + 1, 1 if tip is None else tip.next_seq)
        set_meta(connection, "next_seq", next_seq)
    if tally is None:
        damages.add("meta", "tally")
        tally = Tally(0 if tip is None else tip.transactions, _count(connection))
    if tip is not None and tip.transactions > tally.transactions:
        lost = tip.transactions - tally.transactions
        damages.add("transactions", f"{lost} after {tally.transactions}")
        _log.error(
            "transactions are gone", transactions=lost, events=max(tip.next_seq - next_seq, 0), journal=str(path)
        )
        if tip.next_seq > next_seq:
            add_gap(connection, next_seq, tip.next_seq - 1)
            next_seq = tip.next_seq
            set_meta(connection, "next_seq", next_seq)
        expired = max(expired, min(tip.expired, next_seq - 1))
        set_meta(connection, "expired", expired)
        tally = tally._replace(transactions=tip.transactions)
    write_tally(connection, tally)
    gaps = read_gaps(connection, damages)
    oldest = _oldest(connection, next_seq, gaps)
    connection.execute("COMMIT")
    return Settled(Tip(name, tally.transactions, next_seq, expired), tally, oldest, gaps)


def read_tally(connection: sqlite3.Connection) -> Tally | None:
    """None if it is damaged."""
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
    """The `seq` of the newest event, as far as the table can be read."""
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
    found = read(connection, 0, next_seq - 1, ALL_EVENTS, 1, Known(list(gaps)))
    return found.events[0].seq if found.events else None
