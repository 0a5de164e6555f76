"""Rows of a SQLite file that are found on its pages, against what SQLite says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tooltap.daemon.journal.sqlite.repair import Pages, Value

PAGE = 1_024
SIZES = [*range(0, 60, 7), *range(150, 270), *range(900, 1_300), *range(3_000, 3_100)]
"""Of values. A row of more than about a page (a quarter of one in a table without row ids) continues on other pages."""
POWERS = [2**bits for bits in (0, 7, 8, 15, 16, 23, 24, 31, 47, 62)]
INTEGERS = [*POWERS, *(-one for one in POWERS), *(one - 1 for one in POWERS), *(-one - 1 for one in POWERS)]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "file.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("CREATE TABLE numbered (id INTEGER PRIMARY KEY, value, other)")
        connection.execute("CREATE TABLE keyed (key PRIMARY KEY, value) WITHOUT ROWID")
        yield connection


def rows(connection: sqlite3.Connection) -> list[tuple[Value, ...]]:
    """Row id and columns. The first column of a table with row ids is not repeated."""
    numbered = connection.execute("SELECT id, NULL, value, other FROM numbered").fetchall()
    return sorted(numbered + connection.execute("SELECT NULL, key, value FROM keyed").fetchall(), key=repr)


def found(path: Path) -> list[tuple[Value, ...]]:
    pages = Pages(path)
    cells = [(cell.rowid, *cell.values) for number in pages.live_pages() for cell in pages.cells(number)]
    pages.close()
    return sorted(cells, key=repr)


def test_every_row_is_found(connection: sqlite3.Connection, tmp_path: Path) -> None:
    connection.execute("BEGIN")
    for number, size in enumerate(SIZES):
        value = (b"%4d" % number * size)[:size] if number % 2 else (f"{number:4}é" * size)[:size]
        connection.execute("INSERT INTO numbered VALUES (?, ?, ?)", (number * 2**21, value, number))
        connection.execute("INSERT INTO keyed VALUES (?, ?)", (number, value))
    for number in INTEGERS:
        connection.execute("INSERT INTO numbered VALUES (?, ?, ?)", (number - 3, number, number / 3))
        connection.execute("INSERT INTO keyed VALUES (?, ?)", (f"key {number}", number))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert found(tmp_path / "file.db") == rows(connection)


def test_log_has_later_versions_of_pages_and_no_deleted_row_is_found(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    connection.execute("BEGIN")
    for number in range(300):
        connection.execute("INSERT INTO numbered VALUES (?, ?, 0)", (number, "x" * (number * 10)))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("UPDATE numbered SET other=1 WHERE id%7=0")
    connection.execute("DELETE FROM numbered WHERE id BETWEEN 20 AND 200")
    assert found(tmp_path / "file.db") == rows(connection)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert found(tmp_path / "file.db") == rows(connection)


def test_log_is_read_as_far_as_it_was_committed(connection: sqlite3.Connection, tmp_path: Path) -> None:
    for number in range(100):
        connection.execute("INSERT INTO numbered VALUES (?, ?, 1)", (number, "x" * 500))
    expected = rows(connection)
    connection.execute("PRAGMA cache_size=5")
    size = (tmp_path / "file.db-wal").stat().st_size
    connection.execute("BEGIN")
    connection.execute("UPDATE numbered SET other=2")
    assert (tmp_path / "file.db-wal").stat().st_size > size
    assert found(tmp_path / "file.db") == expected
    connection.execute("ROLLBACK")
