"""The SQLite file: its format version, who may open it, and how a connection to it is set up.

One daemon owns a journal; the lock file beside it holds the owner's pid. The file and SQLite's companions (`-wal`,
`-shm`, which inherit its mode) are private to the user, whatever the umask.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.tables import FORMAT, TABLES, get_meta, set_meta

__all__ = ["Durability", "JournalLock", "connect", "create_or_check", "format_of", "open_read_only"]

Durability: TypeAlias = Literal["process", "power"]
"""What a commit survives: the death of the daemon, or a power failure too."""

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}
PAGE_SIZE = 8_192
WAL_LIMIT = 64 * 1024 * 1024


class JournalLock:
    """Held while the daemon lives; the kernel releases it however the daemon dies."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise JournalError(f"the journal {path} is used by another daemon (pid {owner or 'unknown'})") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection to an existing file, in autocommit mode: transactions are begun explicitly."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    return connection


def create_or_check(path: Path, durability: Durability) -> sqlite3.Connection:
    """Open the file for writing. An empty file becomes a journal, and an older format is migrated. Raises
    `JournalError` for a file that is not a journal."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    connection = connect(path, durability)
    try:
        # The first three take effect only in this order, and before the first table is created.
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        tables = _tables(connection)
        if not tables:
            _create(connection)
        from tooltap.daemon.journal.sqlite.migration import (
            migrate,  # only a daemon needs it, not who asks for the format
        )

        migrate(connection, path, _format(connection, path, tables))
    except BaseException:
        connection.close()
        raise
    return connection


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, even while a daemon writes to it. Raises `JournalError`, also for an older format,
    which only a daemon migrates."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=30)
    except sqlite3.Error as error:
        raise JournalError(f"the journal {path} cannot be opened: {error}") from None
    try:
        if (version := _format(connection, path, _tables(connection) or {"none"})) < FORMAT:
            raise JournalError(
                f"the journal {path} has the older format {version}; start a daemon on it to migrate it to {FORMAT}"
            )
    except sqlite3.Error as error:
        connection.close()
        raise JournalError(f"the journal {path} cannot be opened: {error}") from None
    except JournalError:
        connection.close()
        raise
    return connection


def format_of(path: Path) -> int:
    """Read the format of a journal, which stays unchanged. Raises `JournalError` for other files and newer formats."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _format(connection, path, _tables(connection) or {"none"})
    except sqlite3.Error as error:
        raise JournalError(f"the journal {path} cannot be opened: {error}") from None


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in TABLES.split(";\n"):
        connection.execute(statement)
    set_meta(connection, "format", FORMAT)
    set_meta(connection, "id", secrets.token_hex(8))
    set_meta(connection, "next_seq", 1)
    set_meta(connection, "expired", 0)
    connection.execute("COMMIT")


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}


def _format(connection: sqlite3.Connection, path: Path, tables: set[str]) -> int:
    """Raises `JournalError`."""
    version = get_meta(connection, "format") if not tables or "meta" in tables else None
    if not isinstance(version, int):
        raise JournalError(f"{path} is a database, but not a tooltap journal")
    if version > FORMAT:
        raise JournalError(
            f"the journal {path} has format {version}, written by a newer tooltap; this one knows up to {FORMAT}"
        )
    return version
