"""Reading a file that others write to, from a position on: blocking functions, to be called in a thread.

No file is held open. What tells a file from one that has taken its place, or from itself cut short, is its content: the
bytes before the position must still be there.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["Piece", "Position", "ReplacedError", "find_moved", "position_after", "read_head", "read_on"]

MARK_BYTES = 4_096
BLOCK = 65_536


class ReplacedError(Exception):
    """The file is not, or no longer, the one that was read up to the position."""


class Position(NamedTuple):
    offset: int = 0
    mark: bytes = b""
    """The bytes before `offset`, as many as are compared."""
    inode: int | None = None
    """Of the file last read."""


class Piece(NamedTuple):
    data: bytes
    after: Position
    mtime: int
    """Milliseconds since the epoch."""


def read_on(path: str, position: Position, limit: int) -> Piece:
    """At most `limit` bytes from the position on. Raises `ReplacedError` and `OSError`."""
    offset, mark, _ = position
    with _opened(path) as (descriptor, status):
        data = os.pread(descriptor, len(mark) + limit, offset - len(mark))
    mtime = status.st_mtime_ns // 1_000_000
    if data == mark[:-1] and mark.endswith(b"\n"):  # the last line was taken before its newline was written
        return Piece(b"", position, mtime)
    if not data.startswith(mark):
        raise ReplacedError
    return Piece(data[len(mark) :], Position(offset + len(data) - len(mark), data[-MARK_BYTES:], status.st_ino), mtime)


def position_after(path: str, offset: int, crc: int | None) -> Position:
    """Where reading stopped some time ago: behind the newline of a line with this CRC-32 (None: not known). Raises
    `ReplacedError` and `OSError`."""
    if offset == 0:
        return Position()
    with _opened(path) as (descriptor, status):
        if status.st_size < offset - 1:
            raise ReplacedError
        if status.st_size >= offset and os.pread(descriptor, 1, offset - 1) != b"\n":
            raise ReplacedError
        line = _line_before(descriptor, offset - 1)
    if crc is not None and zlib.crc32(line) != crc:
        raise ReplacedError
    return Position(offset, (line + b"\n")[-MARK_BYTES:], status.st_ino)


def read_head(path: str, limit: int) -> tuple[bytes, int]:
    """The first bytes, and the time of the last change in ms since the epoch. Raises `OSError`."""
    with _opened(path) as (descriptor, status):
        data = b""
        while len(data) < limit and (block := os.pread(descriptor, limit - len(data), len(data))):
            data += block
    return data, status.st_mtime_ns // 1_000_000


def find_moved(path: str, inode: int | None) -> str | None:
    """Where the file that was at this path is now, if it was only given another name."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next((one.path for one in entries if one.inode() == inode and one.path != path), None)
    except OSError:
        return None


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield descriptor, status
    finally:
        os.close(descriptor)


def _line_before(descriptor: int, end: int) -> bytes:
    """The line that ends here."""
    line = b""
    while end > 0:
        start = max(0, end - BLOCK)
        block = os.pread(descriptor, end - start, start)
        _, newline, last = block.rpartition(b"\n")
        line = last + line
        if newline:
            break
        end = start
    return line
