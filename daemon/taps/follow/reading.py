"""Reads a file that another process writes, from a position on. The functions block: call them in a thread.

No file stays open between two reads. So another file may have the path at the next read, or the file may have been
truncated. Both show in the content: the bytes before the position (its `mark`) must still be there.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import orjson

MARK_BYTES = 4_096
BLOCK = 65_536
NOTE_BYTES = 65_536


class ReplacedError(Exception):
    """The file at the path is not the one that was read up to the position, or it was truncated."""


class Position(NamedTuple):
    offset: int = 0
    mark: bytes = b""
    """The last bytes before `offset`, for comparison."""
    inode: int | None = None
    """Inode of the file that was read."""

    taken: Mapping[str, int] = {}
    """Of a database: session -> how many of its rows were read."""


class Chunk(NamedTuple):
    """The bytes that one read returns."""

    data: bytes
    after: Position
    mtime: int
    """Time of the last change, in ms since the epoch."""


class Found(NamedTuple):
    """A session file, as it was when its folder was listed."""

    path: str
    size: int
    mtime: int
    """Nanoseconds since the epoch."""

    @property
    def mtime_ms(self) -> int:
        return self.mtime // 1_000_000


class Reader(Protocol):
    """Reads the sessions of a store. All raise `OSError`."""

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """Read the first `limit` bytes, or a few more. Return them and the time of the last change in ms since the
        epoch."""

    def position_after(self, path: str, offset: int, crc: int | None) -> Position:
        """Return the position where reading stopped earlier: after a line with this CRC-32 (None: unknown). `offset`:
        bytes, or rows. Raises `ReplacedError`."""

    def read_from(self, path: str, position: Position, limit: int) -> Chunk:
        """Read what follows the position, about `limit` bytes. Raises `ReplacedError`."""


def read_from(path: str, position: Position, limit: int) -> Chunk:
    """Read at most `limit` bytes from the position on. Raises `ReplacedError` and `OSError`."""
    offset, mark = position.offset, position.mark
    with opened(path) as (descriptor, status):
        data = os.pread(descriptor, len(mark) + limit, offset - len(mark))
    mtime = status.st_mtime_ns // 1_000_000
    if data == mark[:-1] and mark.endswith(b"\n"):  # the last line was ingested before its newline was written
        return Chunk(b"", position, mtime)
    if not data.startswith(mark):
        raise ReplacedError
    return Chunk(data[len(mark) :], Position(offset + len(data) - len(mark), data[-MARK_BYTES:], status.st_ino), mtime)


def position_after(path: str, offset: int, crc: int | None) -> Position:
    """Return the position where reading stopped earlier: after the newline of a line with this CRC-32 (None: unknown).
    Raises `ReplacedError` and `OSError`."""
    if offset == 0:
        return Position()
    with opened(path) as (descriptor, status):
        if status.st_size < offset - 1:
            raise ReplacedError
        if status.st_size >= offset and os.pread(descriptor, 1, offset - 1) != b"\n":
            raise ReplacedError
        line = _line_before(descriptor, offset - 1)
    if crc is not None and zlib.crc32(line) != crc:
        raise ReplacedError
    return Position(offset, (line + b"\n")[-MARK_BYTES:], status.st_ino)


def read_head(path: str, limit: int) -> tuple[bytes, int]:
    """Read the first bytes. Return them and the time of the last change in ms since the epoch. Raises `OSError`."""
    with opened(path) as (descriptor, status):
        data = b""
        while len(data) < limit and (block := os.pread(descriptor, limit - len(data), len(data))):
            data += block
    return data, status.st_mtime_ns // 1_000_000


class Files:
    """Reads session files."""

    head = staticmethod(read_head)
    position_after = staticmethod(position_after)
    read_from = staticmethod(read_from)


def read_note(path: str, key: str) -> str | None:
    """Return a string of the JSON object in a small file; None if there is none, or not yet."""
    try:
        data, _ = read_head(path, NOTE_BYTES)
        value = orjson.loads(data)
    except (OSError, orjson.JSONDecodeError):
        return None
    noted = value.get(key) if isinstance(value, dict) else None
    return noted if isinstance(noted, str) and noted else None


def find_moved(path: str, inode: int | None) -> str | None:
    """Return the new path of the file that was at this path, if it was renamed in its folder."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next((one.path for one in entries if one.inode() == inode and one.path != path), None)
    except OSError:
        return None


@contextmanager
def opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield descriptor, status
    finally:
        os.close(descriptor)


def _line_before(descriptor: int, end: int) -> bytes:
    """Read the line that ends at this offset."""
    parts: list[bytes] = []
    while end > 0:
        start = max(0, end - BLOCK)
        block = os.pread(descriptor, end - start, start)
        _, newline, last = block.rpartition(b"\n")
        parts.append(last)
        if newline:
            break
        end = start
    return b"".join(reversed(parts))
