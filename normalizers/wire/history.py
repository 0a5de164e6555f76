"""Bookmark in a conversation that its agent writes whole, again and again: how much of it was read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class History(msgspec.Struct, omit_defaults=True):
    """The messages that were read, by the CRC of what identifies each, and in their order."""

    dropped: int = 0
    """Messages before the oldest that is remembered."""
    crcs: list[int] = []

    def unread(self, crcs: Sequence[int], most: int) -> tuple[int, bool]:
        """Compare with the conversation as it is now, and remember it. Return the place of the first message that is
        new, and whether messages that were read are gone. `most`: how many to remember.

        Where the beginning is not remembered any more, it counts as unchanged."""
        start = min(self.dropped, len(crcs))
        common = start
        for old, new in zip(self.crcs, crcs[start:], strict=False):
            if old != new:
                break
            common += 1
        is_shorter = common < self.dropped + len(self.crcs)
        self.dropped = max(0, len(crcs) - most)
        self.crcs = list(crcs[self.dropped :])
        return common, is_shorter
