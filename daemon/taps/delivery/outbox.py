"""Lines of one stream from the moment they were read until the daemon has made them durable.

One thread puts lines in. The one that talks to the daemon takes them, and takes them again when the daemon has been
away. Another may copy them to a spool on disk. What is on disk, or acknowledged, is not kept in memory. Memory is
bounded: where there is no room, whole newest lines are dropped and counted, and the daemon is told (`lost`).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tooltap.normalizers.wire.framing import LongLine

if TYPE_CHECKING:  # what runs an agent loads nothing before the agent runs
    from tooltap.protocol.tapped import Direction

__all__ = ["MAX_BYTES", "Entry", "Outbox", "SpoolLimits", "StreamOptions"]

MAX_BYTES = 64 * 1024 * 1024
OVERHEAD = 200
"""Bytes that keeping a line costs beside the line itself."""

_last = attrgetter("last")


class StreamOptions(NamedTuple):
    """What the daemon is told of a stream; see the `ingest` frame."""

    stream: str
    dialect: str = "auto"
    provider: str | None = None
    session: str | None = None
    mcp_servers: tuple[str, ...] = ()


class SpoolLimits(NamedTuple):
    directory: Path
    spool_bytes: int = 256 * 1024 * 1024
    """Of one stream's spool."""
    spool_total_bytes: int = 1024 * 1024 * 1024
    """Of all spools in the directory."""


class Entry(NamedTuple):
    last: int
    """1-based number of its (last) line."""
    lines: int
    """How many lines it stands for: 1, or more if they are lost."""
    size: int
    line: bytes | LongLine | None
    """None: lost."""
    t: int | None = None
    direction: Direction | None = None
    reason: str = ""
    """Of a loss."""
    memory: int = OVERHEAD
    """Bytes that it takes."""


class Outbox:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.lines = 0
        """Lines put in so far, lost ones included."""
        self.acked = 0
        """Lines known to be durable."""
        self.sent = 0
        """Lines taken, on the present connection."""
        self.spooled = 0
        """Lines that are on disk, as far as they are not acknowledged."""
        self.dropped = 0
        """Lines there was no room for."""
        self.bytes = 0
        """Memory of what is kept."""
        self.obstacle = "the daemon did not keep up"
        """Why there is no room, if there is none."""
        self._max_bytes = max_bytes
        self._lock = threading.Condition()
        self._entries: list[Entry] = []
        """All after `acked` and `spooled`."""
        self._copying = 0
        """The last line that is being copied to disk: nothing is added to it any more."""
        self._complete = False
        self.delivered = False
        """The stream, with its end, is durable: set when all lines have been put in."""

    def put(self, lines: Iterable[bytes | LongLine], t: int | None = None, direction: Direction | None = None) -> None:
        """Take in the next lines; `t`: ms since the epoch. Any single line fits into a box that is not full."""
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
        """Take in that `lines` lines, together `size` bytes, are gone."""
        with self._lock:
            self._lose(lines, size, reason)
            self._lock.notify_all()

    def finish(self, *, delivered: bool) -> None:
        """All lines have been put in. `delivered`: they, and the stream's end, are durable."""
        with self._lock:
            self._complete = True
            self.delivered = delivered
            if delivered:
                self.acked = self.sent = self.lines
                self._forget()
            self._lock.notify_all()

    # -- for the daemon -----------------------------------------------------------------------------------------

    def take(self, max_bytes: int) -> list[Entry] | None:
        """The next entries to send: about `max_bytes`, at least one if there is any. None: the next are on disk."""
        with self._lock:
            if self.sent < self.spooled:
                return None
            taken = self._from(self.sent, max_bytes)
            if taken:
                self.sent = taken[-1].last
            return taken

    def taken(self, lines: int) -> None:
        """All up to line `lines` has been taken from disk."""
        with self._lock:
            self.sent = lines

    def acknowledge(self, lines: int) -> None:
        """The daemon has the first `lines` lines."""
        with self._lock:
            self.acked = max(self.acked, min(lines, self.sent))
            self._forget()

    def resume(self, lines: int) -> int:
        """A daemon has been found, and has `lines` lines of this stream: what is not acknowledged is to be sent again.
        Gives how many it has not that another journal's daemon has acknowledged."""
        with self._lock:
            self.sent = self.acked
            return max(0, self.acked - lines)

    def wait_for_room(self, max_bytes: int, timeout: float) -> bool:
        """Until less than this is kept; false if it is not so in time."""
        with self._lock:
            return self._lock.wait_for(lambda: self.bytes < max_bytes, timeout)

    # -- for the spool ------------------------------------------------------------------------------------------

    def copy(self, max_bytes: int) -> list[Entry]:
        """The next entries to be written to disk; waits for some. Empty when there will be no more."""
        with self._lock:
            self._lock.wait_for(lambda: self._entries or self._complete)
            copied = self._from(0, max_bytes)
            self._copying = copied[-1].last if copied else 0
            return copied

    def copied(self, lines: int) -> None:
        """All up to line `lines` is on disk, or acknowledged."""
        with self._lock:
            self.spooled = lines
            self._forget()

    def wait_until_acked(self, lines: int, timeout: float) -> bool:
        """Until the first `lines` lines are acknowledged, or time is up. At once, and true, if nothing more comes."""
        with self._lock:
            self._lock.wait_for(lambda: self.acked >= lines or self._complete, timeout)
            return self._complete

    def rest(self) -> tuple[int, int]:
        """What is neither on disk nor acknowledged: how many lines, save those already dropped, and bytes."""
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
