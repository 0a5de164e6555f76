"""Damage of the SQLite file: telling it from other errors, and a register of damaged parts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from tooltap.daemon.journal.sqlite.tables import row_sum

CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
UNREADABLE = CORRUPT | {sqlite3.SQLITE_IOERR}
MOST_NAMED = 10_000
"""Damaged parts that are remembered, to count each once. Beyond this, each read of a damaged part is counted."""

T = TypeVar("T")
Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Parameters of a statement."""


def is_corrupt(error: Exception) -> bool:
    """Whether an error of SQLite, or of decoding a value, means that the file is corrupt."""
    return _is_of(error, CORRUPT)


def is_unreadable(error: Exception) -> bool:
    """Whether an error means that a part of the file is corrupt, or cannot be read from the disk (temporarily or for
    good). Events outside this part are still read."""
    return _is_of(error, UNREADABLE)


def _is_of(error: Exception, codes: frozenset[int]) -> bool:
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        # Without a code it is Python's: a text that is not UTF-8, or a number that is too large.
        return code is None or code & 0xFF in codes or "user-defined function" in str(error)
    return isinstance(error, OverflowError | TypeError | UnicodeError | ValueError)


def read_again(read: Callable[[], T]) -> T:
    """Call `read`, and retry once on a corruption error: SQLite reports one also after a transient read error."""
    try:
        return read()
    except Exception as error:
        if not is_corrupt(error):
            raise
        return read()


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A read transaction: all reads within it see the same snapshot."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):  # what it read of damaged pages does not end it
            connection.execute("ROLLBACK")


class Damages:
    """Register of damaged parts other than events, since the journal was opened. Several threads add to it."""

    def __init__(self) -> None:
        self.found = 0
        self.by_table: Counter[str] = Counter()
        self._named: set[tuple[str, str]] = set()

    def add(self, table: str, name: object) -> None:
        """Count a damaged part, once. `name`: which row or rows of the table."""
        key = (table, str(name))
        if key in self._named:
            return
        if len(self._named) < MOST_NAMED:
            self._named.add(key)
        self.found += 1
        self.by_table[table] += 1
        from tooltap.daemon.system.logs import (
            get_logger,
        )  # the doctor, which tells damage from other errors, has no log

        get_logger("journal").error("a part of the journal is damaged", table=table, row=str(name)[:200])

    def is_intact(self, table: str, values: Sequence[Any], checksum: object) -> bool:
        """Verify a row, and count it if it is damaged."""
        try:
            if row_sum(table, *values) == checksum:
                return True
        except (TypeError, UnicodeError):
            pass
        self.add(table, values[0])
        return False

    def rows(self, connection: sqlite3.Connection, table: str, sql: str, values: Values) -> list[Any]:
        """The readable rows. If an index is damaged, the query is repeated without indexes, and returns the rows up to
        the first unreadable page. `sql` has `{}` after the name of the table."""
        return self.readable(connection, table, sql, values)[0]

    def readable(
        self, connection: sqlite3.Connection, table: str, sql: str, values: Values
    ) -> tuple[list[Any], Exception | None]:
        """Like `rows`; returns also the error that hid other rows, or None."""
        try:
            return read_again(lambda: connection.execute(sql.format(""), values).fetchall()), None
        except Exception as error:
            if not is_corrupt(error):
                raise
            self.add(table, f"pages: {error}")
        found: list[Any] = []
        try:
            cursor = connection.execute(sql.format(" NOT INDEXED"), values)
            while (row := cursor.fetchone()) is not None:
                found.append(row)
        except Exception as error:
            if not is_corrupt(error):
                raise
            return found, error
        return found, None

    def has(self, connection: sqlite3.Connection, table: str, sql: str, values: Values) -> bool:
        """Whether there is a row. Raises SQLite's error if none was found, but not everything could be read."""
        found, missed = self.readable(connection, table, sql, values)
        if not found and missed is not None:
            raise missed
        return bool(found)
