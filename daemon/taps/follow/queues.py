"""The files that wait for a turn: which of them comes next."""

from __future__ import annotations

import heapq
import time
from collections import deque

from tooltap.daemon.taps.follow.entry import Entry

__all__ = ["Queues"]


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
