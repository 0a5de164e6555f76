"""Commits that the journal has refused: what `stats` and `doctor` say of it, until a commit succeeds, or the journal
takes as much again."""

from __future__ import annotations

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.system.logs import Trouble, get_logger

_log = get_logger("streams")


class Refusals(Trouble):
    """The refused commits of all streams. `end` when one succeeds."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(_log, "lines cannot be committed; their publishers retain them", "lines are committed again")
        self._journal = journal
        self._size = 0

    def refuse(self, reason: str, size: int) -> None:
        """Record that a commit was refused. `size`: bytes of its lines."""
        self._size = size
        self.begin(reason)

    async def try_again(self) -> None:
        """End the problem if the journal takes as many bytes as it refused last."""
        if self.problem is not None and await self._journal.can_store(self._size):
            self.end()
