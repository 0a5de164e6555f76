"""The spool: the lines of one stream in a file, waiting for a daemon.

Format: one line of JSON (`Header`), padded with spaces, then the records of the lines as they are sent to the daemon
(`protocol/tapped.py`). The header says which stream it is, for which daemon, and after which line the records begin
(`after`). It is padded so that it can be rewritten in place, which works even on a full disk: `restart` empties the
spool once all of its lines are durable, and `end` notes how the stream ended.

Who may use it: the file is private to the user, and locked by the process that uses it. That is the publisher while it
runs. Once the lock is free the publisher is gone, and the daemon takes in what it left behind (`drain.py`). A publisher
that was killed in the middle of a record leaves a torn one at the end; `torn` counts its bytes.

Appends are not synced to disk: a spool survives the end of a process, not of the machine.
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
"""The length of the header is a multiple of this."""
ROOM = 1_024
"""Padding of the header, at least: room for what is not known when it is first written."""
MAX_HEADER = 1024 * 1024
READ = 65_536
LOST = b'{"op":"lost"'


class SpoolError(Exception):
    """The spool cannot be used; the message is a part of a sentence for the user."""


class Ending(msgspec.Struct, frozen=True):
    """How the stream ended: the publisher has put in all lines."""

    lines: int
    """Lines of the whole stream. Those that are neither in the spool nor at the daemon are lost."""
    bytes: int = 0
    """Bytes of the lines that are not in the spool."""
    reason: str = ""
    """Why they are not in the spool."""


class Header(msgspec.Struct, kw_only=True):
    v: int = FORMAT
    socket: str
    """The socket of the daemon that the stream is for."""
    ingest: Ingest
    after: int = 0
    """Lines of the stream before those in the spool. They are durable."""
    ending: Ending | None = None


class Spool:
    """An open spool. Every method may raise `OSError`."""

    def __init__(self, path: Path, descriptor: int, header: Header, start: int, end: int) -> None:
        self.path = path
        self.header = header
        self.lines = header.after
        """The last line written. Unknown for an adopted spool."""
        self.size = end
        self._file = descriptor
        self._start = start
        self._cursor = (header.after, start)
        """A line, and the offset of the next one."""

    @classmethod
    def create(cls, directory: Path, header: Header) -> Self:
        """Create a spool. Raises `SpoolError` and `OSError`."""
        path = _private(directory) / f"{header.ingest.stream}{SUFFIX}"
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                break
            os.close(descriptor)  # another process adopted it between the two calls above
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
        """Open and lock a spool that a publisher left behind; None if it is in use, gone, or empty. Raises `SpoolError`
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
        """Append whole records of this many lines: all of them, or on an `OSError` none."""
        try:
            self._write(records, self.size)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(records)
        self.lines += lines

    def restart(self, after: int) -> None:
        """Empty the spool and begin again after line `after`: all lines up to it are durable."""
        os.ftruncate(self._file, self._start)
        self.header.after = self.lines = after
        self.size = self._start
        self._cursor = (after, self._start)
        self._write_header()

    def end(self, ending: Ending) -> None:
        self.header.ending = msgspec.structs.replace(ending, reason=ending.reason[: ROOM // 8])
        self._write_header()

    def read(self, after: int) -> tuple[bytes, int]:
        """Return whole records from line `after + 1` on, about 64 KiB, and the number of the last line in them. At the
        end they are empty."""
        line, offset = self._cursor if self._cursor[0] <= after else (self.header.after, self._start)
        while block := self._block(offset):
            first, line, offset = line, line + _lines(block), offset + len(block)
            self._cursor = (line, offset)
            if line > after:
                return _behind(block, after - first), line
        return b"", line

    @property
    def torn(self) -> int:
        """Bytes of an unfinished record at the end, once everything else has been read."""
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
        """Read whole records from this offset on."""
        parts: list[bytes] = []
        while part := os.pread(self._file, min(READ, self.size - offset), offset):
            offset += len(part)
            end = part.rfind(b"\n") + 1
            parts.append(part[:end] or part)
            if end:
                return b"".join(parts)
        return b""


def spools(directory: Path) -> dict[Path, int]:
    """Return all spools in the directory with their sizes, in the order of their last change."""
    found: dict[Path, os.stat_result] = {}
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            found[path] = path.lstat()
        except FileNotFoundError:  # its stream has just been delivered
            pass
    return {path: status.st_size for path, status in sorted(found.items(), key=lambda one: one[1].st_mtime_ns)}


def _private(directory: Path) -> Path:
    """Create the directory if necessary, and check that only the user may write to it. Raises `SpoolError` and
    `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise SpoolError(f"other users may write to {directory}")
    return directory


def _read_header(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpoolError(f"its header is invalid: {error}") from None
    if header.v != FORMAT:
        raise SpoolError(f"it has format {header.v}, but this daemon reads only format {FORMAT}")
    return header


def _lines(records: bytes) -> int:
    """Count the lines of the stream that the records stand for."""
    lines = records.count(b"\n")
    if LOST in records:  # inside a string the quotes would be escaped
        lost = (read_tapped(record) for record in records.split(b"\n") if record.startswith(LOST))
        lines += sum(record.lines - 1 for record in lost if isinstance(record, Lost))
    return lines


def _behind(records: bytes, lines: int) -> bytes:
    """Return the records without those of the first `lines` lines."""
    start = 0
    while lines > 0:
        end = records.index(b"\n", start) + 1
        lines -= _lines(records[start:end])
        start = end
    return records[start:]
