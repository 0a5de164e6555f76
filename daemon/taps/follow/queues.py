"""Followed files that wait for a turn, which of them comes next, and how far the backfill is."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass

from tooltap.daemon.taps.follow.backfill_worker import Portion, Request
from tooltap.daemon.taps.follow.file import FollowedFile, Seen
from tooltap.daemon.taps.follow.reading import Found
from tooltap.daemon.taps.follow.stores import Root
from tooltap.protocol.stats import BackfillStatistics


@dataclass(slots=True)
class Entry:
    """A file that has been reported."""

    root: Root
    found: Found
    """Its state in the last report."""
    seen: Seen
    changed: bool = False
    """Whether it has changed since it was last read."""
    queued: bool = False
    """Whether it waits for a turn, or has turns."""
    is_old: bool = False
    """Whether it waits in the backlog."""
    file: FollowedFile | None = None
    result: tuple[Request, Portion | None] | None = None
    """What another process returned for the open file, and for which request."""
    touched: float = 0.0
    """When it was last read; monotonic seconds."""


class Queues:
    """`entries`: all files that have been reported, by path. A file is in one queue at most, and in `later` besides."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        self._fresh: deque[str] = deque()
        """Files that have changed since the start."""
        self._backlog: list[tuple[int, str]] = []
        """A heap of files that had changed before the start, the newest first. It keeps those that have moved on to
        `_fresh`, whose entries are not `is_old`."""
        self._later: list[tuple[float, str]] = []
        """A heap of files and when to try them again."""

    def clear(self) -> None:
        for queue in (self._fresh, self._backlog, self._later):
            queue.clear()

    def add(self, path: str, entry: Entry) -> None:
        """Add a file that has changed since the start."""
        entry.changed = True
        if not entry.queued or entry.is_old:
            entry.queued, entry.is_old = True, False
            self._fresh.append(path)

    def add_old(self, path: str, entry: Entry) -> None:
        """Add a file that had changed before the start, and is reported for the first time."""
        entry.changed = entry.queued = entry.is_old = True
        heapq.heappush(self._backlog, (-entry.found.mtime, path))

    def add_later(self, path: str, seconds: float) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, path))

    def pop_fresh(self) -> str | None:
        """Return the next file that has changed since the start, or is to be tried again."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, path = heapq.heappop(self._later)
            if (entry := self._entries.get(path)) is not None:
                self.add(path, entry)
        return self._fresh.popleft() if self._fresh else None

    def pop_old(self) -> str | None:
        """Return the next file of the backlog."""
        while self._backlog:
            _, path = heapq.heappop(self._backlog)
            entry = self._entries.get(path)
            if entry is not None and entry.is_old:
                entry.is_old = False
                return path
        return None

    @property
    def due(self) -> float | None:
        """When a file is to be tried again; monotonic seconds."""
        return self._later[0][0] if self._later else None

    @property
    def postponed(self) -> int:
        return len(self._later)


class Backfill:
    """What the backfill has found to read, and how much of it has been read.

    `listings`: folders that have not been listed yet.
    """

    def __init__(self, listings: int) -> None:
        self._listings = listings
        self.bytes = 0
        self._files = 0
        self._left: dict[str, int] = {}
        """Bytes that have not been read yet, of the files that are not done."""

    def listed(self) -> None:
        """A folder has been listed for the first time."""
        self._listings -= 1

    def add(self, path: str, size: int) -> None:
        """Add a file with so many bytes to read."""
        self._files += 1
        self.bytes += size
        self._left[path] = size

    def advance(self, path: str, left: int) -> None:
        """Note how many bytes of a file have not been read yet. A file may grow meanwhile."""
        if path in self._left:
            self._left[path] = max(0, min(left, self._left[path]))

    def finish(self, path: str) -> None:
        """Note that a file has been read, or cannot be."""
        self._left.pop(path, None)

    def statistics(self) -> BackfillStatistics:
        return BackfillStatistics(
            files=self._files,
            files_done=self._files - len(self._left),
            bytes=self.bytes,
            bytes_done=self.bytes - sum(self._left.values()),
            complete=self._listings <= 0 and not self._left,
        )
