"""How far the backfill is: what it has found to read, and how much of it has been read."""

from __future__ import annotations

from tooltap.protocol.stats import BackfillStatistics

__all__ = ["Backfill"]


class Backfill:
    """`listings`: folders that have not been listed yet."""

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
