"""The outbox: a bounded buffer of the lines of one stream, from reading them until the daemon has committed them.

Three threads share an outbox. The reader puts lines in (`put`, `lose`). The delivery takes them and sends them to the
daemon (`delivery.py`). The spooler, if there is one, copies them to disk (`Spooler` in `spool.py`).

Every line has a fixed number, counted from 1. So four counters describe the state of all lines:

    acked     the daemon has committed lines 1 to `acked`
    sent      lines up to here have been taken on the current connection
    spooled   lines up to here are on disk or acknowledged
    lines     lines put in so far

Memory holds only the lines after both `acked` and `spooled`. A new connection sets `sent` back to `acked`, and the
lines after it are taken again: up to `spooled` from disk, then from memory. The delivery leaves out those that the
daemon already has, so a line takes effect exactly once although it may be taken several times.

Memory is bounded. When the outbox is full, new lines are dropped, each as a whole. A dropped line keeps its number: an
entry without a line replaces it and is sent as `lost`. So the numbers of all later lines stay correct.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tooltap.normalizers.wire.framing import LongLine

if TYPE_CHECKING:
    from tooltap.protocol.inputs import Direction, ProcessEnd

MAX_BYTES = 64 * 1024 * 1024
OVERHEAD = 200
"""Memory overhead of an entry in addition to its line, in bytes."""

_last = attrgetter("last")


class StreamOptions(NamedTuple):
    """The description of a stream in the `ingest` frame."""

    stream: str
    dialect: str = "auto"
    provider: str | None = None
    session: str | None = None
    mcp_servers: tuple[str, ...] = ()
    agent: str | None = None
    parent: str | None = None
    started: int | None = None
    """When the agent was started, in ms since the epoch."""
    cwd: str | None = None
    prompt: str | None = None


class SpoolLimits(NamedTuple):
    directory: Path
    spool_bytes: int = 256 * 1024 * 1024
    """Limit for the spool of one stream, in bytes."""
    spool_total_bytes: int = 1024 * 1024 * 1024
    """Limit for all spools in the directory, in bytes."""


class Entry(NamedTuple):
    last: int
    """Number of the entry's last line, counted from 1."""
    lines: int
    """Number of lines that the entry covers: 1, or more if they are lost."""
    size: int
    line: bytes | LongLine | None
    """None: the lines are lost."""
    t: int | None = None
    direction: Direction | None = None
    reason: str = ""
    """The reason why the lines are lost."""
    memory: int = OVERHEAD
    """Memory of the entry, in bytes."""


class Outbox:
    """Buffer of the lines of one stream that the daemon has not committed yet. `begin`: number of lines that the daemon
    has from an earlier publisher."""

    def __init__(self, max_bytes: int = MAX_BYTES, *, begin: int = 0) -> None:
        self.lines = begin
        """Number of lines put in so far, including lost ones."""
        self.acked = begin
        """Number of lines that the daemon has committed."""
        self.sent = begin
        """Number of the last line taken on the current connection."""
        self.spooled = begin
        """Number of a line: it and all before it are on disk or acknowledged."""
        self.ended: int | None = None
        """End of the agent in ms since the epoch; None if unknown."""
        self.process: ProcessEnd | None = None
        """How the agent's process ended; None if the tap has none."""
        self.dropped = 0
        """Number of lines dropped because the outbox was full."""
        self.bytes = 0
        """Memory of all entries, in bytes."""
        self.is_spool_gone = False
        """True if the spool was removed, and could not be made again, so that its lines are lost."""
        self.obstacle = "the daemon did not keep up"
        """The reason given for lines that are dropped when the outbox is full."""
        self._max_bytes = max_bytes
        self._lock = threading.Condition()
        self._entries: list[Entry] = []
        """The entries after `acked` and `spooled`."""
        self._copying = 0
        """Number of the last line that is being copied to disk: its entry may no longer be extended."""
        self._complete = False
        self.delivered = False
        """True if all lines and the end or suspension of the stream are durable; set by `finish`."""
        self.suspended = False
        """True if the stream is suspended instead of ended; set by `finish`."""

    def put(self, lines: Iterable[bytes | LongLine], t: int | None = None, direction: Direction | None = None) -> None:
        """Add the next lines. `t`: ms since the epoch. An outbox that is not full takes one more line of any length."""
        with self._lock:
            for line in lines:
                size, kept = (line.size, len(line.head)) if isinstance(line, LongLine) else (len(line), len(line))
                if self.bytes < self._max_bytes:
                    self._add(Entry(self.lines + 1, 1, size, line, t, direction, memory=kept + OVERHEAD))
                else:
                    self.dropped += 1
                    self._lose(1, size, self.obstacle)
            self._lock.notify_all()

    def lose(self, lines: int, size: int, reason: str) -> None:
        """Add a loss: `lines` lines, together `size` bytes, are missing here."""
        with self._lock:
            self._lose(lines, size, reason)
            self._lock.notify_all()

    def finish(self, *, delivered: bool, suspended: bool = False) -> None:
        """Declare that all lines have been put in. `delivered`: they and the stream's end or suspension are durable."""
        with self._lock:
            self._complete = True
            self.delivered = delivered
            self.suspended = suspended
            if delivered:
                self.acked = self.sent = self.lines
                self._forget()
            self._lock.notify_all()

    # -- for the delivery ---------------------------------------------------------------------------------------

    def take(self, max_bytes: int) -> list[Entry] | None:
        """Return the next entries to send: about `max_bytes`, at least one if there are any; None if the next lines are
        only on disk."""
        with self._lock:
            if self.sent < self.spooled:
                return None
            taken = self._from(self.sent, max_bytes)
            if taken:
                self.sent = taken[-1].last
            return taken

    def taken(self, lines: int) -> None:
        """Note that all lines up to `lines` have been taken from disk."""
        with self._lock:
            self.sent = lines

    def acknowledge(self, lines: int) -> None:
        """Note that the daemon has committed the first `lines` lines."""
        with self._lock:
            self.acked = max(self.acked, min(lines, self.sent))
            self._forget()

    def resume(self, lines: int) -> int:
        """Prepare to send all lines after `acked` again, on a new connection to a daemon that has `lines` lines of the
        stream. Return the number of acknowledged lines that it lacks, because its journal was replaced."""
        with self._lock:
            self.sent = self.acked
            return max(0, self.acked - lines)

    def wait_for_room(self, max_bytes: int, timeout: float) -> bool:
        """Wait until the entries take less memory than this. Return False after the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: self.bytes < max_bytes, timeout)

    # -- for the spool ------------------------------------------------------------------------------------------

    def copy(self, max_bytes: int, timeout: float | None) -> list[Entry] | None:
        """Wait for the next entries to write to disk, and return them; an empty list after the timeout, None when there
        will be no more."""
        with self._lock:
            self._lock.wait_for(lambda: self._entries or self._complete, timeout)
            copied = self._from(0, max_bytes)
            self._copying = copied[-1].last if copied else 0
            return copied if copied or not self._complete else None

    def copied(self, lines: int) -> None:
        """Note that all lines up to `lines` are on disk or acknowledged."""
        with self._lock:
            self.spooled = lines
            self._forget()

    def wait_until_acked(self, lines: int, timeout: float) -> bool:
        """Wait until the first `lines` lines are acknowledged, all lines have been put in, or the timeout is over.
        Return whether all lines have been put in."""
        with self._lock:
            self._lock.wait_for(lambda: self.acked >= lines or self._complete, timeout)
            return self._complete

    def rest(self) -> tuple[int, int]:
        """Count the lines that are neither on disk nor acknowledged, without dropped ones; return their number and
        bytes."""
        with self._lock:
            lines = sum(1 for entry in self._entries if entry.line is not None)
            return lines, sum(entry.size for entry in self._entries)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _from(self, line: int, max_bytes: int) -> list[Entry]:
        first = last = bisect_right(self._entries, line, key=_last)
        size = 0
        while last < len(self._entries) and size < max_bytes:
            size += self._entries[last].memory
            last += 1
        return self._entries[first:last]

    def _lose(self, lines: int, size: int, reason: str) -> None:
        newest = self._entries[-1] if self._entries else None
        if (
            newest is not None
            and newest.line is None
            and newest.reason == reason
            and newest.last > max(self.sent, self._copying)
        ):
            self.lines += lines
            self._entries[-1] = newest._replace(last=self.lines, lines=newest.lines + lines, size=newest.size + size)
        else:
            self._add(Entry(self.lines + lines, lines, size, None, reason=reason))

    def _add(self, entry: Entry) -> None:
        self.lines = entry.last
        self._entries.append(entry)
        self.bytes += entry.memory

    def _forget(self) -> None:
        gone = bisect_right(self._entries, max(self.acked, self.spooled), key=_last)
        self.bytes -= sum(entry.memory for entry in self._entries[:gone])
        del self._entries[:gone]
        self._lock.notify_all()
