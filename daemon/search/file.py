"""The file of the index: its tables, how it is opened, and when it is rebuilt.

The index has nothing that the journal has not. So a file that is damaged, of another version, or of another journal is
deleted, and made again in the background.

Documents are in parts, for consecutive events. Each part has a table of SQLite's full-text search with the words
(`text_1`, …), and a table with the `seq` and the label of each document (`docs_1`, …); a label is a kind and a tool.
Both have the same ids, which `document_ids.py` explains. The full-text table keeps no text (`content=''`), so no
document can be taken out of it: a part of which events were deleted is dropped and made again.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tooltap.daemon.journal.sqlite.side_files import SIDE_FILES, claim_side_files
from tooltap.normalizers.stream.searchable import VERSION
from tooltap.traces.recording.own_file import open_own

__all__ = ["TOKENIZER", "connect", "delete_file", "free_pages", "get", "open_file", "put", "size_of"]

FORMAT = f"2.{VERSION}"
TOKENIZER = "unicode61 remove_diacritics 2"
WAL_LIMIT = 16 * 1024 * 1024

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE sources (id INTEGER PRIMARY KEY, stream TEXT, named TEXT, session TEXT, provider TEXT, cwd TEXT,"
    " first INTEGER, last INTEGER, UNIQUE (stream, named))",
    "CREATE INDEX sources_of_session ON sources (session)",
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, kind TEXT, tool TEXT, raw_tool TEXT, UNIQUE (kind, tool, raw_tool))",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY AUTOINCREMENT, first INTEGER, last INTEGER, docs INTEGER,"
    " built INTEGER, closed INTEGER, low INTEGER, high INTEGER)",
    "CREATE TABLE slots (part INTEGER, slot INTEGER, source INTEGER, PRIMARY KEY (part, slot)) WITHOUT ROWID",
)


def open_file(path: Path, journal: str) -> sqlite3.Connection:
    """Open the index of a journal for writing; begin a new one if there is none, or none of this version and journal.
    Raises `OSError`, `JournalError`, `sqlite3.Error`."""
    connection = _open(path)
    try:
        if _is_of(connection, journal):
            return connection
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            connection.close()
            raise
    connection.close()
    delete_file(path)
    connection = _open(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            connection.execute(statement)
        for key, value in (("format", FORMAT), ("journal", journal), ("upto", 0), ("floor", 0)):
            put(connection, key, value)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode, to a file that `open_file` has made."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    # Losing the latest documents to a power failure costs no more than to make them again.
    connection.execute("PRAGMA synchronous=NORMAL")
    # What is deleted is overwritten: it was text of someone's sessions.
    connection.execute("PRAGMA secure_delete=ON")
    return connection


def delete_file(path: Path) -> None:
    """Raises `OSError`."""
    for suffix in ("", *SIDE_FILES):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def free_pages(connection: sqlite3.Connection) -> None:
    """Give what was dropped back to the file system, and empty the write-ahead log, which still has it."""
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def size_of(connection: sqlite3.Connection) -> int:
    """Bytes of the file in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def get(connection: sqlite3.Connection, key: str) -> Any:
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return None if row is None else row[0]


def put(connection: sqlite3.Connection, key: str, value: int | str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _open(path: Path) -> sqlite3.Connection:
    claim_side_files(path)
    descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    connection = connect(path)
    try:
        with suppress(sqlite3.DatabaseError):  # it is no database: `_is_of` finds out
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        claim_side_files(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_of(connection: sqlite3.Connection, journal: str) -> bool:
    with closing(connection.execute("SELECT 1 FROM sqlite_master WHERE name='meta'")) as found:
        if found.fetchone() is None:
            return False
    return (get(connection, "format"), get(connection, "journal")) == (FORMAT, journal)
