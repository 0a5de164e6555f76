"""Lines of one stream from the moment they were read until the daemon has made them durable.

One thread puts lines in; the one that talks to the daemon takes them, and forgets them when they are acknowledged. When
the daemon goes away, what was sent and not acknowledged is sent again. The box is bounded: where there is no room,
whole newest lines are dropped and counted, and the daemon is told (`lost`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tooltap.normalizers.framing import LongLine

if TYPE_CHECKING:  # what runs an agent loads nothing before the agent runs
    from tooltap.protocol.tapped import Direction

__all__ = ["Entry", "Outbox", "StreamOptions"]

MAX_BYTES = 64 * 1024 * 1024
OVERHEAD = 200
"""Bytes that keeping a line costs beside the line itself."""


class StreamOptions(NamedTuple):
    """What the daemon is told of a stream; see the `ingest` frame."""

    stream: str
    dialect: str = "auto"
    provider: str | None = None
    session: str | None = None
    mcp_servers: tuple[str, ...] = ()


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

    @property
    def memory(self) -> int:
        kept = self.line.head if isinstance(self.line, LongLine) else self.line or b""
        return len(kept) + OVERHEAD


class Outbox:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.lines = 0
        """Lines put in so far, lost ones included."""
        self.acked = 0
        """Lines known to be durable."""
        self.dropped = 0
        """Lines there was no room for."""
        self.bytes = 0
        """Memory of what is kept."""
        self._max_bytes = max_bytes
        self._lock = threading.Condition()
        self._waiting: deque[Entry] = deque()
        self._sent: deque[Entry] = deque()

    def put(self, lines: Iterable[bytes | LongLine], t: int | None = None, direction: Direction | None = None) -> None:
        """Take in the next lines; `t`: ms since the epoch. Any single line fits into a box that is not full."""
        with self._lock:
            for line in lines:
                size = line.size if isinstance(line, LongLine) else len(line)
                if self.bytes < self._max_bytes:
                    self._add(Entry(self.lines + 1, 1, size, line, t, direction))
                else:
                    self.dropped += 1
                    self._lose(1, size, "the daemon did not keep up")

    def lose(self, lines: int, size: int, reason: str) -> None:
        """Take in that `lines` lines, together `size` bytes, are gone."""
        with self._lock:
            self._lose(lines, size, reason)

    def take(self, max_bytes: int) -> list[Entry]:
        """The next entries to send: about `max_bytes`, at least one if there is any."""
        taken: list[Entry] = []
        size = 0
        with self._lock:
            while self._waiting and size < max_bytes:
                entry = self._waiting.popleft()
                taken.append(entry)
                size += entry.memory
            self._sent.extend(taken)
        return taken

    def acknowledge(self, lines: int) -> None:
        """The daemon has the first `lines` lines."""
        with self._lock:
            self.acked = max(self.acked, lines)
            while self._sent and self._sent[0].last <= self.acked:
                self.bytes -= self._sent.popleft().memory
            self._lock.notify_all()

    def wait_for_room(self, max_bytes: int, timeout: float) -> bool:
        """Until less than this is kept; false if it is not so in time."""
        with self._lock:
            return self._lock.wait_for(lambda: self.bytes < max_bytes, timeout)

    def resume(self, lines: int) -> None:
        """A daemon has been found, and has `lines` lines of this stream: everything else is to be sent again."""
        with self._lock:
            self._waiting.extendleft(reversed(self._sent))
            self._sent.clear()
            if lines < self.acked:  # it has another journal than the one that acknowledged them
                gone = Entry(self.acked, self.acked - lines, 0, None, reason="the daemon's journal was replaced")
                self._waiting.appendleft(gone)
                self.bytes += gone.memory
            self.acked = lines

    def _lose(self, lines: int, size: int, reason: str) -> None:
        newest = self._waiting[-1] if self._waiting else None
        if newest is not None and newest.line is None and newest.reason == reason:
            self.lines += lines
            self._waiting[-1] = newest._replace(last=self.lines, lines=newest.lines + lines, size=newest.size + size)
        else:
            self._add(Entry(self.lines + lines, lines, size, None, reason=reason))

    def _add(self, entry: Entry) -> None:
        self.lines = entry.last
        self._waiting.append(entry)
        self.bytes += entry.memory
