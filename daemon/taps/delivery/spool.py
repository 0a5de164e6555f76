"""The spool: the lines of one stream in a file, waiting for a daemon.

Format: a header, then the records of the lines. The header is one line of JSON (`Header`) with a checksum, padded with
spaces; it is stored twice, to survive the loss of a block. It names the stream, the daemon, and the line after which
the records begin (`after`). It is padded so that it can be rewritten in place, which works even on a full disk:
`restart` empties the spool once all of its lines are durable, and `end` records how the stream ended.

A record is preceded by a checksum and the number of its last line: `<CRC-32 in hex> <last line> <record>` and a
newline. So a zeroed, flipped, torn or missing record is detected, and the next intact one tells how many lines are
missing.

Access: the file is private to the user, and locked by the process that uses it: the publisher, while it runs. When the
lock is free, the publisher has ended, and the daemon takes in the spool (`drain.py`).

Damage: the records before and after unreadable bytes are read, and a loss is reported in between. A publisher that was
killed in the middle of a record leaves a torn one at the end; `torn` counts its bytes. `is_damaged` is set if anything
could not be read: such a spool is not removed, but moved to the quarantine.

The quarantine is a folder beside the spools, for damaged ones. Their readable lines are in the journal by then, and the
others were reported as lost. Only if neither copy of the header can be read, the owner of the lines is unknown: they
are in no journal, and every report says so (`is_unread`). A damaged spool is never deleted, for later analysis. So the
folder is limited by refusing more spools: then a damaged spool stays where it was, and counts as a spool.

Removed in use: the publisher, which has the file open, copies it into a new one (`renew`).

The writer (`Spooler`) decides when to `sync`: until then a record survives the end of the process, but not of the
machine.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, count
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.taps.delivery.outbox import Entry, Outbox, SpoolLimits, StreamOptions
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.frames import Ingest
from tooltap.protocol.inputs import Lost, ProcessEnd, read_tapped, write_tapped
from tooltap.traces.recording.own_file import NotOursError, private_folder
from tooltap.traces.recording.whole_file import sync_folder

FORMAT = 1
MAGIC = b"tooltap-spool-"
SUFFIX = ".spool"
BLOCK = 4_096
"""Block size in bytes: the length of each copy of the header is a multiple of this."""
ROOM = 1_024
"""Least padding of the header, in bytes, for fields that are filled in later."""
MAX_HEADER = 1024 * 1024
COPY = 1024 * 1024
"""Bytes that are copied at once from a file that was removed."""

_COPY = re.compile(rb"tooltap-spool-(\d+) ([0-9a-f]{8}) ")


class SpoolError(Exception):
    """The spool cannot be used; the message is a part of a sentence for the user."""


class DamagedSpoolError(SpoolError):
    """The header cannot be read, so it is unknown for which daemon the spool is."""


class Ending(msgspec.Struct, frozen=True):
    """How the stream ended or was suspended. Present once the publisher has put in all lines."""

    lines: int
    """Number of lines of the whole stream. Those that are neither in the spool nor at the daemon are lost."""
    bytes: int = 0
    """Bytes of the lines that could not be spooled."""
    reason: str = ""
    """The reason why they could not be spooled."""
    t: int | None = None
    """End of the agent in ms since the epoch; None if unknown."""
    suspended: bool = False
    """True if the stream is suspended, not ended: its publisher may resume it."""
    process: ProcessEnd | None = None
    """How the agent's process ended; None if unknown."""


class Header(msgspec.Struct, kw_only=True):
    socket: str
    """The socket of the daemon that the stream is for."""
    ingest: Ingest
    after: int = 0
    """Number of lines of the stream before those in the spool. They are durable."""
    ending: Ending | None = None


class Spool:
    """An open spool. Every method may raise `OSError`."""

    def __init__(
        self, path: Path, descriptor: int, header: Header, start: int, end: int, *, is_damaged: bool = False
    ) -> None:
        self.path = path
        self.header = header
        self.lines = header.after
        """Number of the last line written. Not valid for an adopted spool."""
        self.size = end
        self.is_damaged = is_damaged
        """True if anything read so far is damaged."""
        self._file = descriptor
        self._start = start
        self._is_name_synced = False
        self._cursor = (header.after, start)
        """Read position: the number of a line, and the file offset of the next record."""

    @classmethod
    def create(cls, directory: Path, header: Header) -> Self:
        """Create a spool. Raises `SpoolError` and `OSError`."""
        path = _private(directory) / f"{header.ingest.stream}{SUFFIX}"
        descriptor = _create(path)
        start = 2 * -(-(len(msgspec.json.encode(header)) + ROOM) // BLOCK) * BLOCK
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
        """Open and lock a spool that a publisher left behind; None if it is in use, was removed, or is empty because
        its publisher was killed while creating it. Raises `SpoolError` and `OSError`."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise SpoolError("it is not a file of this user")
            if status.st_nlink and status.st_size:
                header, start, is_damaged = _header(descriptor)
                # It is shorter than its header if its publisher was killed while it wrote that.
                return cls(path, descriptor, header, start, max(start, status.st_size), is_damaged=is_damaged)
            if status.st_nlink:
                path.unlink()
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def append(self, records: bytes, lines: int) -> None:
        """Append whole records (made by `frame`) of this many lines; on an `OSError`, none is appended."""
        try:
            self._write(records, self.size)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(records)
        self.lines += lines

    def restart(self, after: int) -> None:
        """Empty the spool, and set `after`: all lines up to it are durable."""
        os.ftruncate(self._file, self._start)
        self.header.after = self.lines = after
        self.size = self._start
        self._cursor = (after, self._start)
        self.is_damaged = False
        self._write_header()

    def sync(self) -> None:
        """Sync the file to disk, so that it survives a crash of the machine."""
        failpoint("spool-sync")
        os.fdatasync(self._file)
        if not self._is_name_synced:
            sync_folder(self.path.parent)
            self._is_name_synced = True

    def is_in_place(self) -> bool:
        """Return whether the file is still there, under its name."""
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._file))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def renew(self) -> None:
        """Copy the spool, of which the file was removed, renamed or replaced, into a new file. One that is at its path
        now is left alone. Another thread may read meanwhile. Raises `SpoolError` and `OSError`."""
        path = _private(self.path.parent) / f"{self.header.ingest.stream}{SUFFIX}"
        for number in count(2):
            try:
                descriptor = _create(path)
                break
            except FileExistsError:
                path = path.with_name(f"{self.header.ingest.stream}.{number}{SUFFIX}")
        try:
            offset = 0
            while data := os.pread(self._file, min(COPY, self.size - offset), offset):
                offset += os.pwrite(descriptor, data, offset)
            # It replaces the file in one step, also for a thread that reads. The lock is the new file's.
            os.dup2(descriptor, self._file, inheritable=False)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(descriptor)
        self.path = path
        self._is_name_synced = False

    def end(self, ending: Ending) -> None:
        self.header.ending = msgspec.structs.replace(ending, reason=ending.reason[: ROOM // 8])
        self._write_header()

    def read(self, after: int) -> tuple[bytes, int]:
        """Return whole records from line `after + 1` on, about 64 KiB, and the number of their last line; empty at the
        end. Unreadable records are replaced by a loss."""
        written, size = self.lines, self.size  # in this order: another thread may append
        line, offset = self._cursor if self._cursor[0] <= after else (self.header.after, self._start)
        found: list[bytes] = []
        length = unread = 0
        for piece, piece_size in pieces(self._file, offset, size):
            offset += piece_size
            record = unframe(piece)
            if record is None and (piece := intact(piece)):
                record = unframe(piece)
            if record is None or record.last <= line:
                unread += piece_size
                self.is_damaged = True
                continue
            if len(piece) < piece_size:
                unread += piece_size - len(piece)
                self.is_damaged = True
            begin = record.last - record.lines
            if begin > (known := max(line, after)):
                found.append(encode_lost(begin - known, unread, DAMAGED))
                self.is_damaged = True
            if record.last > after:
                found.append(record.data if begin >= known else _rest(record, record.last - known))
                length += len(record.data)
            unread = 0
            line = record.last
            self._cursor = (line, offset)
            if length >= READ:
                return b"".join(found), line
        if line < written:  # the end of our own spool
            self.is_damaged = True
            if written > (known := max(line, after)):
                found.append(encode_lost(written - known, unread, DAMAGED))
            line = written
            self._cursor = (line, size)
        return b"".join(found), line

    def left_after(self, known: int) -> Iterator[bytes]:
        """Yield the records of all lines after `known`, the number of lines that the daemon has. Lines missing in the
        spool are yielded as losses."""
        if (gone := self.header.after - known) > 0:
            yield encode_lost(gone, 0, JOURNAL_REPLACED)
            known += gone
        records, last = self.read(known)
        while records:
            yield records
            records, last = self.read(last)
        ending = self.header.ending
        if ending is not None:
            if (missing := ending.lines - max(known, last)) > 0:
                yield encode_lost(missing, ending.bytes + self.torn, DAMAGED if self.torn else ending.reason)
        elif self.torn and last >= known:
            lines, is_torn = 0, False
            for piece, size in pieces(self._file, self._cursor[1], self.size):
                lines += 1
                is_torn = lines == 1 and len(piece) == size and not piece.endswith(b"\n")
            yield encode_lost(lines, self.torn, TORN if is_torn else DAMAGED)

    @property
    def torn(self) -> int:
        """Length of a torn record at the end, in bytes. Call after everything else has been read."""
        return self.size - self._cursor[1]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._file)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _write_header(self) -> None:
        self._write(2 * _copy(self.header, self._start // 2), 0)

    def _write(self, data: bytes, offset: int) -> None:
        failpoint("spool-write")
        while data:
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written


def _create(path: Path) -> int:
    """Create a file, and lock it. Raises `OSError`."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # another process adopted it between the two calls above


def spools(directory: Path) -> dict[Path, int]:
    """Return all spools in the directory with their sizes, in the order of their last change. Raises `OSError`."""
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
    try:
        private_folder(directory)
    except NotOursError as error:
        raise SpoolError(f"spools cannot be in {directory}: {error.strerror}") from None
    return directory


def read_header(path: Path) -> tuple[Header, bool]:
    """Return the header of a spool, and whether a process uses it. Raises `SpoolError` and `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        header, _, _ = _header(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return header, True
    finally:
        os.close(descriptor)
    return header, False


def _copy(header: Header, length: int) -> bytes:
    """Encode one copy of the header, padded to `length`."""
    beginning = MAGIC + b"%d " % FORMAT
    text = b"%d " % length + msgspec.json.encode(header)
    text = text.ljust(length - len(beginning) - len("12345678 ") - 1) + b"\n"
    return beginning + b"%08x " % zlib.crc32(text) + text


def _header(file: int) -> tuple[Header, int, bool]:
    """Read the header. Returns it, the offset of the first record, and whether a copy of the header is damaged. Raises
    `SpoolError`."""
    start = os.pread(file, MAX_HEADER, 0)
    for place in (0, *range(BLOCK, MAX_HEADER, BLOCK)):
        found = _COPY.match(start, place)
        if found is None:
            continue
        if int(found[1]) != FORMAT:
            raise SpoolError(f"it has format {int(found[1])}, but this daemon reads only format {FORMAT}")
        text = start[found.end() : start.find(b"\n", found.end()) + 1]
        if found[2] == b"%08x" % zlib.crc32(text):
            number, _, header = text.partition(b" ")
            length = int(number)
            if place in (0, length):
                other = os.pread(file, length, length - place)
                return _decode(header), 2 * length, other != start[place : place + length]
    raise DamagedSpoolError("its header cannot be read")


def _decode(line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedSpoolError(f"its header is invalid: {error}") from None
    return header


def _rest(record: Record, lines: int) -> bytes:
    """Shorten the record of a loss to its last `lines` lines."""
    lost = read_tapped(record.data)
    assert isinstance(lost, Lost)
    return encode_lost(lines, lost.bytes, lost.reason)


UNREAD = "none of its lines is in a journal"


class QuarantineLimits(NamedTuple):
    files: int = 100
    """Most spools in the quarantine; further damaged ones stay where they are."""
    bytes: int = 256 * 1024 * 1024
    """Limit for all spools in the quarantine, in bytes."""


def quarantine_folder(directory: Path) -> Path:
    """The folder of the quarantine. `directory`: folder of the spools."""
    return directory / "quarantined"


def quarantine(path: Path, limits: QuarantineLimits) -> Path | None:
    """Move a spool to the quarantine, and return its new place; None if the quarantine is full. Raises `OSError`."""
    folder = quarantine_folder(path.parent)
    private_folder(folder)
    there = spools(folder)
    if len(there) >= limits.files or sum(there.values()) + path.lstat().st_size > limits.bytes:
        return None
    for number in range(1, limits.files + 2):
        place = folder / (path.name if number == 1 else f"{path.name.removesuffix(SUFFIX)}.{number}{SUFFIX}")
        try:
            os.link(path, place, follow_symlinks=False)  # unlike a rename it replaces nothing
        except FileExistsError:
            continue
        path.unlink()
        return place
    return None


def is_unread(path: Path) -> bool:
    """Whether no part of a spool in the quarantine was taken in."""
    try:
        read_header(path)
    except DamagedSpoolError:
        return True
    except (SpoolError, OSError):
        pass
    return False


# -- records ----------------------------------------------------------------------------------------------------------

JOURNAL_REPLACED = "the daemon's journal was replaced"
"""Reason for the loss of acknowledged lines: they are in an earlier journal."""
TORN = "the publisher was killed in the middle of a line"


def encode(entry: Entry) -> bytes:
    """Encode an entry of an outbox as a record of a tapped stream, for the socket and for a spool."""
    if entry.line is None:
        return encode_lost(entry.lines, entry.size, entry.reason)
    if isinstance(entry.line, LongLine):
        return write_tapped(entry.line.head, entry.t, entry.direction, size=entry.line.size) + b"\n"
    return write_tapped(entry.line, entry.t, entry.direction) + b"\n"


def encode_lost(lines: int, size: int, reason: str) -> bytes:
    """Encode the loss of `lines` lines, `size` bytes in all."""
    return msgspec.json.encode({"op": "lost", "lines": lines, "bytes": size, "reason": reason}) + b"\n"


DAMAGED = "the spool is damaged"
"""Reason for the loss of lines that were in a spool, but cannot be read."""
READ = 65_536
LOST = b'{"op":"lost"'
CRC = 8

_START = re.compile(rb'(?:[0-9a-f]{8} \d+ )?\{"(?:t|dir|line|b64|op)":')


class Record(NamedTuple):
    last: int
    """Number of the record's last line."""
    lines: int
    """Number of lines of the stream that the record covers."""
    data: bytes


def frame(record: bytes, last: int) -> bytes:
    """Prefix a record, which ends with a newline, with the checksum and the number of its last line."""
    numbered = b"%d %b" % (last, record)
    return b"%08x %b" % (zlib.crc32(numbered), numbered)


def unframe(piece: bytes) -> Record | None:
    """Return the record; None if the piece is not an intact record."""
    if piece[CRC : CRC + 1] != b" " or piece[:CRC] != b"%08x" % zlib.crc32(numbered := piece[CRC + 1 :]):
        return None
    last, _, data = numbered.partition(b" ")
    lines = 1
    if data.startswith(LOST):  # inside a string the quotes would be escaped
        record = read_tapped(data)
        lines = record.lines if isinstance(record, Lost) else 1
    return Record(int(last), lines, data)


def intact(piece: bytes) -> bytes:
    """Return the last record in a piece with several, which were joined because a newline is damaged. A string in a
    record cannot be mistaken for the start of one, because its quotes are escaped."""
    starts = [found.start() for found in _START.finditer(piece, 1)]
    return piece[starts[-1] :] if starts else b""


def pieces(file: int, offset: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Split the file at newlines: yield each piece, and at last the unterminated rest, with its length in the file. No
    record has a zero byte: bytes before one are left out of a piece, as they may be as long as the file."""
    parts: list[bytes] = []
    size = 0
    while part := os.pread(file, min(READ, end - offset), offset):
        offset += len(part)
        *whole, rest = part.split(b"\n")
        for one in [*(line + b"\n" for line in whole), *([rest] if rest else [])]:
            size += len(one)
            if b"\0" in one:
                parts.clear()
            parts.append(one[one.rfind(b"\0") + 1 :])
            if one.endswith(b"\n"):
                yield b"".join(parts), size
                parts, size = [], 0
    if size:
        yield b"".join(parts), size


# -- the spooler ------------------------------------------------------------------------------------------------------

BATCH = 256 * 1024
RETRY = 0.5
"""Seconds between attempts to write after a failure."""
SYNC = 1.0
"""Most seconds between writing lines to the spool and syncing them to disk."""
CHECK = 1.0
"""Seconds between two looks at whether the file is there, while it has lines that the daemon lacks."""
LOOK = 65_536
"""Bytes that a publisher may write before it checks the total size of all spools again. Each writing publisher may
exceed the total limit by this."""


class Spooler:
    """Copies an outbox to a spool, in its own thread, so that a slow, full or hanging disk delays nothing else.

    If the spool is full or cannot be written, lines wait in the outbox, which drops new ones when it is full as well.
    Whenever all lines in the spool are durable, it is emptied, so it stays small while the daemon keeps up.

    Lines in the spool are synced to disk every `SYNC` seconds, and when the stream ends: a crash of the machine loses
    only the most recent lines, and the daemon reports them as lost. Lines that the daemon has committed are not synced.

    `socket`: socket of the daemon that the lines are for.
    """

    def __init__(self, outbox: Outbox, options: StreamOptions, socket: Path, limits: SpoolLimits) -> None:
        self._outbox = outbox
        ingest = Ingest(framing="tapped", **options._asdict())
        self._header = Header(socket=os.path.realpath(socket), ingest=ingest)
        self._limits = limits
        self._spool: Spool | None = None
        self._allowed = 0
        """Bytes that may be written before the total of all spools is checked again."""
        self._sync_at: float | None = None
        """Monotonic time of the next sync; None if nothing was written since the last one."""

    def run(self) -> None:
        """Copy until all lines have been put in. Then record the end in the spool, or remove it if everything was
        delivered."""
        while (entries := self._outbox.copy(BATCH, self._until_next())) is not None:
            try:
                if entries:
                    self._write(entries)
                else:
                    self._keep()
                if self._until_sync() == 0:
                    self._sync()
            except (SpoolError, OSError) as error:
                self._note(error)
                last = entries[0].last if entries else self._outbox.lines
                if self._outbox.wait_until_acked(last, RETRY):
                    break
        try:
            self._end()
        except (SpoolError, OSError) as error:
            self._note(error)
        self._outbox.is_spool_gone = self._spool is not None and not self._spool.is_in_place()

    def read(self, after: int) -> tuple[bytes, int]:
        """Read the spool (`Spool.read`), for the thread of the delivery: lines that are only on disk."""
        assert self._spool is not None
        return self._spool.read(after)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _write(self, entries: list[Entry]) -> None:
        """Write as many entries as there is room for; raises `SpoolError` or `OSError` if some are left."""
        spool = self._spool_after(entries[0].last - entries[0].lines)
        records = [frame(encode(entry), entry.last) for entry in entries]
        ends = list(accumulate(map(len, records)))
        fitting = bisect_right(ends, self._room(spool, ends[-1]))
        try:
            self._append(spool, records[:fitting], entries[:fitting])
        except OSError:  # there may be room on the disk for the first ones
            for record, entry in zip(records[:fitting], entries, strict=False):
                self._append(spool, [record], [entry])
        if fitting < len(entries):
            raise SpoolError("the spool is full")

    def _append(self, spool: Spool, records: list[bytes], entries: list[Entry]) -> None:
        before = spool.size
        spool.append(b"".join(records), sum(entry.lines for entry in entries))
        self._allowed -= spool.size - before
        self._outbox.copied(spool.lines)
        if self._sync_at is None:
            self._sync_at = time.monotonic() + SYNC

    def _until_sync(self) -> float | None:
        """Seconds until the next sync; None if nothing was written since the last."""
        return None if self._sync_at is None else max(0.0, self._sync_at - time.monotonic())

    def _until_next(self) -> float | None:
        """Seconds until something must be done besides writing; None if nothing."""
        if self._spool is None or self._outbox.acked >= self._spool.lines:
            return self._until_sync()
        return min(CHECK, CHECK if (sync := self._until_sync()) is None else sync)

    def _keep(self) -> None:
        """Make the file again if it was removed and has lines that the daemon lacks."""
        if self._spool is None or self._outbox.acked >= self._spool.lines or self._spool.is_in_place():
            return
        self._spool.renew()
        self._allowed = 0
        self._sync_at = time.monotonic()

    def _sync(self) -> None:
        """Sync written lines, unless the daemon has committed them."""
        self._sync_at = None
        if self._spool is not None and self._outbox.acked < self._spool.lines:
            self._spool.sync()

    def _room(self, spool: Spool, wanted: int) -> int:
        """Return how many of `wanted` bytes may be written within the limits."""
        if wanted > self._allowed:
            free = self._limits.spool_total_bytes - sum(spools(self._limits.directory).values())
            self._allowed = min(max(wanted, LOOK), free)
        return min(self._limits.spool_bytes - spool.size, self._allowed)

    def _spool_after(self, after: int) -> Spool:
        """Return the spool, created or emptied if necessary, ready for line `after + 1`."""
        if self._spool is None:
            self._header.after = after
            self._spool = Spool.create(self._limits.directory, self._header)
        else:
            if self._outbox.acked >= self._spool.lines:
                self._spool.restart(after)
            if not self._spool.is_in_place():
                self._spool.renew()
        return self._spool

    def _end(self) -> None:
        if self._spool is None:
            return
        outbox = self._outbox
        if outbox.delivered and not self._spool.is_damaged:
            self._spool.remove()
        else:  # the daemon moves a damaged one to the quarantine
            lost = outbox.rest()[1]
            ending = Ending(outbox.lines, lost, outbox.obstacle, outbox.ended, outbox.suspended, outbox.process)
            self._spool.end(ending)
            self._keep()
            self._spool.sync()

    def _note(self, error: SpoolError | OSError) -> None:
        why = f"the spool cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        self._outbox.obstacle = why
