"""Reads the sessions in an agent's SQLite database, each as if it were a file of lines: a row is a line.

So the number of lines that a stream has is its position, as it is for files. The agent's reader (`catalog/dialect.py`)
knows the tables.

The agent must not notice: connections only read, are open for one short transaction, and create no files. While nobody
has the database open, there is no write-ahead log, and reading could create one; so the main file is read as it is.
"""

from __future__ import annotations

import errno
import itertools
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from tooltap.daemon.taps.follow.reading import Chunk, Found, Position, ReplacedError
from tooltap.normalizers.catalog.dialect import DatabaseReader, Query, SessionGoneError

ROW_BYTES = 1_024
"""Size of a row for the progress of a backfill, which is in bytes."""
LOCK_TIMEOUT = 1.0
"""Seconds to wait for a lock, which readers need only while the log is recovered."""
HEADER_BYTES = 48
"""The beginning of the index of the write-ahead log, which every commit changes."""


def state_of(path: str) -> object:
    """Return a value that differs after each commit; None if there is no database."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    try:
        descriptor = os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        header = b""
    else:
        try:
            header = os.pread(descriptor, HEADER_BYTES, 0)
        finally:
            os.close(descriptor)
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, header


class Database:
    """A database of sessions. The path of a session is that of the database, a slash and the session's id."""

    def __init__(self, path: str, reader: DatabaseReader) -> None:
        self.path = path
        self._reader = reader

    def list_sessions(self) -> list[Found]:
        """List the sessions that are no subagents'. Their size is the number of rows. Raises `OSError`."""
        with _opened(self.path) as query:
            found = list(self._reader.sessions(query, self._changed()))
        return [Found(f"{self.path}/{one.session}", one.rows, one.changed * 1_000_000) for one in found]

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        chunk = self.read_from(path, Position(), limit)
        return chunk.data, chunk.mtime

    def position_after(self, path: str, offset: int, crc: int | None) -> Position:
        """Return the position after so many rows of a session. Raises `ReplacedError` and `OSError`."""
        if offset == 0:
            return Position()
        session = os.path.basename(path)
        taken: dict[str, int] = {}
        before: dict[str, int] = {}
        with _opened(self.path) as query, _present(session):
            with closing(self._reader.numbers(query, session)) as numbers:
                for owner, number in itertools.islice(numbers, offset):
                    before = {owner: number}
                    taken[owner] = number + 1
            if sum(taken.values()) != offset:
                raise ReplacedError
            with closing(self._reader.rows(query, session, taken | before, self._changed())) as rows:
                if crc is not None and zlib.crc32(next(rows).line) != crc:
                    raise ReplacedError
        return Position(offset, taken=taken)

    def read_from(self, path: str, position: Position, limit: int) -> Chunk:
        """Read rows until they have at least `limit` bytes. Raises `OSError`."""
        session = os.path.basename(path)
        taken = dict(position.taken)
        lines: list[bytes] = []
        size, at = 0, 0
        with _opened(self.path) as query, _present(session):
            changed = self._changed()
            with closing(self._reader.rows(query, session, taken, changed)) as rows:
                for row in rows:
                    lines.append(row.line + b"\n")
                    size += len(row.line) + 1
                    taken[row.owner] = row.number + 1
                    at = row.time
                    if size >= limit:
                        break
        return Chunk(b"".join(lines), Position(position.offset + len(lines), taken=taken), at or changed)

    def _changed(self) -> int:
        return os.stat(self.path).st_mtime_ns // 1_000_000


@contextmanager
def _present(session: str) -> Iterator[None]:
    try:
        yield
    except SessionGoneError:
        raise FileNotFoundError(errno.ENOENT, "the session is deleted", session) from None


@contextmanager
def _opened(path: str) -> Iterator[Query]:
    """Open a database for one transaction. Raises `OSError`, also for whatever SQLite says."""
    before = state_of(path)
    if before is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    is_idle = not os.path.exists(f"{path}-wal")
    place = f"file:{quote(path)}?{'immutable=1' if is_idle else 'mode=ro'}"
    try:
        connection = sqlite3.connect(place, timeout=LOCK_TIMEOUT, uri=True, isolation_level=None)
        try:
            connection.execute("BEGIN")
            yield connection.execute
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), path) from error
    if is_idle and state_of(path) != before:  # it was opened meanwhile, so what was read may be of two states
        raise OSError(errno.EAGAIN, "the agent has just opened it", path)
