"""Reads the sessions that an agent stores in an SQLite database, each as if it were a file of lines.

The database is an event log: its table `event` numbers the rows of each session (`seq`) from 0 on, and each becomes a
line. The sessions of subagents are read together with the one that they belong to, in the order of their rows. So the
number of lines that a stream has is its position, as it is for files. Rows never change; a session may be deleted.

The agent must not notice: connections only read, are open for one short transaction, and create no files. While nobody
has the database open, there is no write-ahead log, and reading could create one; so the main file is read as it is.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import quote

import orjson

from tooltap.daemon.taps.follow.places import Found
from tooltap.daemon.taps.follow.reading import Chunk, Position, Reader, ReplacedError
from tooltap.normalizers.core.bounded import make_room

__all__ = ["DATABASES", "ROW_BYTES", "list_sessions", "state_of"]

ROW_BYTES = 1_024
"""What a row is taken to have in a progress, which is in bytes."""
PATIENCE = 1.0
"""Seconds to wait for a lock, which readers need only while the log is recovered."""
HEADER_BYTES = 48
"""The beginning of the index of the write-ahead log, which every commit changes."""
TIME_BITS = 36
"""Low bits of the time, in ms, that an id of an event has."""
MOST_KNOWN = 100_000
_NEXT = "SELECT rowid, id, aggregate_id, seq, type, data FROM event WHERE aggregate_id = ? AND seq >= ? ORDER BY seq"
_ROWIDS = "SELECT rowid, aggregate_id, seq FROM event WHERE aggregate_id = ? ORDER BY seq"


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


def list_sessions(path: str) -> list[Found]:
    """List the sessions that are no subagents'. Their size is the number of rows. Raises `OSError`."""
    found: dict[str, tuple[int, int]] = {}
    with _opened(path) as connection:
        now = _changed(path)
        last = dict(connection.execute("SELECT aggregate_id, seq FROM event_sequence"))
        owners = _owners(connection, path, last)
        for session, seq in last.items():
            root = _root(session, owners)
            event = connection.execute("SELECT id FROM event WHERE aggregate_id = ? AND seq = ?", (session, seq))
            rows, at = found.get(root, (0, 0))
            found[root] = rows + seq + 1, max([at, *(_time(one, now) for (one,) in event)])
    return [Found(f"{path}/{session}", rows, at * 1_000_000) for session, (rows, at) in found.items()]


def _head(path: str, limit: int) -> tuple[bytes, int]:
    chunk = _read_from(path, Position(), limit)
    return chunk.data, chunk.mtime


def _position_after(path: str, lines: int, crc: int | None) -> Position:
    if lines == 0:
        return Position()
    database, session = os.path.split(path)
    with _opened(database) as connection:
        family = _family(connection, database, session)
        taken: dict[str, int] = {}
        with closing(heapq.merge(*(connection.execute(_ROWIDS, (one,)) for one in family))) as rows:
            for _, owner, seq in itertools.islice(rows, lines):
                taken[owner] = seq + 1
                last = owner, seq
        if not taken:
            raise ReplacedError
        [row] = connection.execute(_NEXT + " LIMIT 1", last)
        if sum(taken.values()) != lines or (crc is not None and zlib.crc32(_line(row)) != crc):
            raise ReplacedError
    return Position(lines, taken=taken)


def _read_from(path: str, position: Position, limit: int) -> Chunk:
    database, session = os.path.split(path)
    taken = dict(position.taken)
    parts: list[bytes] = []
    size, at = 0, 0
    with _opened(database) as connection:
        now, family = _changed(database), _family(connection, database, session)
        with closing(heapq.merge(*(connection.execute(_NEXT, (one, taken.get(one, 0))) for one in family))) as rows:
            for row in rows:
                line = _line(row)
                parts.append(line + b"\n")
                size += len(line) + 1
                taken[row[2]] = row[3] + 1
                at = _time(row[1], now)
                if size >= limit:
                    break
    return Chunk(b"".join(parts), Position(position.offset + len(parts), taken=taken), at or now)


DATABASES = Reader(_head, _position_after, _read_from)


def _line(row: tuple[int, str, str, int, str, str]) -> bytes:
    """Return a row as a line. It must be the same each time, because its CRC shows whether the row is."""
    _, event, session, seq, kind, data = row
    head = json.dumps({"id": event, "aggregate_id": session, "seq": seq, "type": kind})
    return f'{head[:-1]}, "data": {data}}}'.replace("\n", " ").encode(errors="replace")


def _time(event: str, now: int) -> int:
    """Return when an event was made, in ms since the epoch: its id has the low bits. `now`: a time not long before or
    after it."""
    try:
        low = int(event.partition("_")[2][:12], 16) >> 12
    except ValueError:
        return now
    near = now & ~((1 << TIME_BITS) - 1) | low
    return min((near + shift for shift in (-(1 << TIME_BITS), 0, 1 << TIME_BITS)), key=lambda at: abs(at - now))


def _changed(path: str) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000


def _family(connection: sqlite3.Connection, path: str, session: str) -> list[str]:
    """Return a session and those of its subagents. Raises `FileNotFoundError`."""
    known = dict(connection.execute("SELECT aggregate_id, seq FROM event_sequence"))
    owners = _owners(connection, path, known)
    family = [one for one in known if _root(one, owners) == session]
    if not family:
        raise FileNotFoundError(errno.ENOENT, "the session is deleted", session)
    return family


_known: dict[tuple[str, str], str] = {}
"""(database, session) -> the session that it belongs to, or an empty text. That never changes."""


def _owners(connection: sqlite3.Connection, path: str, sessions: Mapping[str, int]) -> dict[str, str]:
    """Return which of these sessions belong to which. The first row of a session says so."""
    for session in sessions:
        if (path, session) not in _known:
            for (data,) in connection.execute("SELECT data FROM event WHERE aggregate_id = ? AND seq = 0", (session,)):
                make_room(_known, MOST_KNOWN)
                _known[path, session] = _owner(data)
    owners = {session: _known.get((path, session), "") for session in sessions}
    return {session: owner for session, owner in owners.items() if owner in sessions}


def _owner(data: str) -> str:
    try:
        value = orjson.loads(data)
        owner = value["info"].get("parentID")
    except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError):
        return ""
    return owner if isinstance(owner, str) else ""


def _root(session: str, owners: Mapping[str, str]) -> str:
    seen = {session}
    while (owner := owners.get(session)) is not None and owner not in seen:
        session = owner
        seen.add(owner)
    return session


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database for one transaction. Raises `OSError`, also for whatever SQLite says."""
    before = state_of(path)
    if before is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    is_idle = not os.path.exists(f"{path}-wal")
    place = f"file:{quote(path)}?{'immutable=1' if is_idle else 'mode=ro'}"
    try:
        connection = sqlite3.connect(place, timeout=PATIENCE, uri=True, isolation_level=None)
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), path) from error
    if is_idle and state_of(path) != before:  # it was opened meanwhile, so what was read may be of two states
        raise OSError(errno.EAGAIN, "the agent has just opened it", path)
