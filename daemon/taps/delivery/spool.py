"""A spool: one stream's lines in a file, from where the daemon gets them when it is there.

A line of JSON says what stream it is, then come its lines as they are sent to a daemon (`protocol/tapped.py`). The
first line is as long when it is rewritten as it was at first: where the lines begin again once all that was there is
durable, and how the stream has ended, can be said on a disk that is full.

The file is private, and locked by whoever uses it: the publisher that writes it, or the daemon that takes in what a
publisher left behind. Nothing is synced: what it has to survive is a process, not the machine.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Self

import msgspec

from tooltap.daemon.system.failpoints import failpoint
from tooltap.protocol.frames import Ingest
from tooltap.protocol.tapped import Lost, read_tapped

__all__ = ["Ending", "Header", "Spool", "SpoolError", "spools"]

FORMAT = 1
SUFFIX = ".spool"
BLOCK = 4_096
"""The first line is a multiple of this long."""
ROOM = 1_024
"""Of which this is left for what is not known at first."""
MAX_HEADER = 1024 * 1024
READ = 65_536
LOST = b'{"op":"lost"'


class SpoolError(Exception):
    """The spool cannot be used; the message is a part of a sentence for the user."""


class Ending(msgspec.Struct, frozen=True):
    """The publisher has put in all lines."""

    lines: int
    """Of the whole stream. What is neither in the spool nor at the daemon is lost."""
    bytes: int = 0
    """Of the lines that are not in the spool."""
    reason: str = ""
    """Why they are not."""


class Header(msgspec.Struct, kw_only=True):
    v: int = FORMAT
    socket: str
    """Of the daemon the stream is for."""
    ingest: Ingest
    after: int = 0
    """Lines of the stream before those in the spool: they are durable."""
    ending: Ending | None = None


class Spool:
    """An open spool. Every method may raise `OSError`."""

    def __init__(self, path: Path, descriptor: int, header: Header, start: int, end: int) -> None:
        self.path = path
        self.header = header
        self.lines = header.after
        """The last line written. Not known of one that was left behind."""
        self.size = end
        self._file = descriptor
        self._start = start
        self._cursor = (header.after, start)
        """A line, and where the one after it begins."""

    @classmethod
    def create(cls, directory: Path, header: Header) -> Self:
        """A new one. Raises `SpoolError` and `OSError`."""
        path = _private(directory) / f"{header.ingest.stream}{SUFFIX}"
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                break
            os.close(descriptor)  # between the two calls above somebody took it for one that was left behind
        start = -(-(len(msgspec.json.encode(header)) + ROOM) // BLOCK) * BLOCK
        spool = cls(path, descriptor, header, start, start)
        try:
            spool._write_header()
        except OSError:
            spool.remove()
            spool.close()
            raise
        return spool

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """One that was left behind; None if it is in use, or gone, or nothing was written to it. Raises `SpoolError`
        and `OSError`."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise SpoolError("it is not a file of this user")
            if status.st_nlink:
                line, newline, _ = os.pread(descriptor, MAX_HEADER, 0).partition(b"\n")
                if newline:
                    return cls(path, descriptor, _read_header(line), len(line) + 1, status.st_size)
                path.unlink()
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def append(self, records: bytes, lines: int) -> None:
        """Add whole records of this many lines: all of them, or on an `OSError` none."""
        try:
            self._write(records, self.size)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(records)
        self.lines += lines

    def restart(self, after: int) -> None:
        """Begin again behind line `after`: all lines before it are durable."""
        os.ftruncate(self._file, self._start)
        self.header.after = self.lines = after
        self.size = self._start
        self._cursor = (after, self._start)
        self._write_header()

    def end(self, ending: Ending) -> None:
        self.header.ending = msgspec.structs.replace(ending, reason=ending.reason[: ROOM // 8])
        self._write_header()

    def read(self, after: int) -> tuple[bytes, int]:
        """Whole records from line `after + 1` on, about 64 KiB, and the number of the last line in them; empty at the
        end."""
        line, offset = self._cursor if self._cursor[0] <= after else (self.header.after, self._start)
        while block := self._block(offset):
            first, line, offset = line, line + _lines(block), offset + len(block)
            self._cursor = (line, offset)
            if line > after:
                return _behind(block, after - first), line
        return b"", line

    @property
    def torn(self) -> int:
        """Bytes of an unfinished record at the end, once everything has been read."""
        return self.size - self._cursor[1]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._file)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _write_header(self) -> None:
        self._write(msgspec.json.encode(self.header).ljust(self._start - 1) + b"\n", 0)

    def _write(self, data: bytes, offset: int) -> None:
        failpoint("spool-write")
        while data:
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written

    def _block(self, offset: int) -> bytes:
        """Whole records from here on."""
        parts: list[bytes] = []
        while part := os.pread(self._file, min(READ, self.size - offset), offset):
            offset += len(part)
            end = part.rfind(b"\n") + 1
            parts.append(part[:end] or part)
            if end:
                return b"".join(parts)
        return b""


def spools(directory: Path) -> dict[Path, int]:
    """All spools there with their sizes, those written to last in the end."""
    found: dict[Path, os.stat_result] = {}
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            found[path] = path.lstat()
        except FileNotFoundError:  # delivered just now
            pass
    return {path: status.st_size for path, status in sorted(found.items(), key=lambda one: one[1].st_mtime_ns)}


def _private(directory: Path) -> Path:
    """Raises `SpoolError` and `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise SpoolError(f"other users may write to {directory}")
    return directory


def _read_header(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpoolError(f"it does not begin as one: {error}") from None
    if header.v != FORMAT:
        raise SpoolError(f"it is of format {header.v}, this daemon reads {FORMAT}")
    return header


def _lines(records: bytes) -> int:
    """How many lines of the stream the records stand for."""
    lines = records.count(b"\n")
    if LOST in records:  # in a string its quotes would be escaped
        lost = (read_tapped(record) for record in records.split(b"\n") if record.startswith(LOST))
        lines += sum(record.lines - 1 for record in lost if isinstance(record, Lost))
    return lines


def _behind(records: bytes, lines: int) -> bytes:
    """The records without those of the first `lines` lines."""
    start = 0
    while lines > 0:
        end = records.index(b"\n", start) + 1
        lines -= _lines(records[start:end])
        start = end
    return records[start:]
