"""What a session's calls did, and when: their families, in all and in slices of the session's time.

A slice is as wide as a power of two times a second and begins at a multiple of its width, so the slices are the same in
whatever order calls come, and rows of the same session can be added.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.tools.families import family_of

__all__ = ["MAX_SLICES", "Activity"]

MAX_SLICES = 24
NARROWEST = 1_000
"""Milliseconds of the narrowest slice."""


class Activity(msgspec.Struct, omit_defaults=True):
    KINDS: ClassVar = ("tool-call",)

    families: dict[str, int] = {}
    """Family -> calls."""
    width: int = NARROWEST
    slices: dict[int, dict[str, int]] = {}
    """Start of the slice, in widths since the epoch -> its families. None without calls, at most `MAX_SLICES` apart."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        family = family_of(entry.tool)
        self.families[family] = self.families.get(family, 0) + 1
        if ts is not None:
            _add(self.slices, ts // self.width, {family: 1})
            self._widen()

    def absorb(self, earlier: Activity) -> None:
        for family, calls in earlier.families.items():
            self.families[family] = self.families.get(family, 0) + calls
        width = max(self.width, earlier.width)
        merged = _merged(self.slices, width // self.width)
        for start, families in earlier.slices.items():
            _add(merged, start * earlier.width // width, families)
        self.slices, self.width = merged, width
        self._widen()

    def over(self, first: int, last: int) -> tuple[list[dict[str, int]], int]:
        """The slices from `first` to `last`, in milliseconds since the epoch, and their width. No slices if no call
        has a time."""
        if not self.slices:
            return [], self.width
        width = self.width
        first, last = min(first, min(self.slices) * width), max(last, max(self.slices) * width)
        while last // width - first // width >= MAX_SLICES:
            width *= 2
        slices = _merged(self.slices, width // self.width)
        return [slices.get(start, {}) for start in range(first // width, last // width + 1)], width

    def _widen(self) -> None:
        while max(self.slices, default=0) - min(self.slices, default=0) >= MAX_SLICES:
            self.slices = _merged(self.slices, 2)
            self.width *= 2


def _merged(slices: dict[int, dict[str, int]], count: int) -> dict[int, dict[str, int]]:
    merged: dict[int, dict[str, int]] = {}
    for start, families in slices.items():
        _add(merged, start // count, families)
    return merged


def _add(slices: dict[int, dict[str, int]], start: int, families: dict[str, int]) -> None:
    counts = slices.setdefault(start, {})
    for family, calls in families.items():
        counts[family] = counts.get(family, 0) + calls
