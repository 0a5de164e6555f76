"""Ranges of `seq` whose events are damaged: those that a journal has found so far, and those that a repair recorded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

MOST_GAPS = 10_000
"""Ranges in memory. Beyond this, those that are closest to each other become one: it names events that are intact too,
and hides none that is damaged."""


class Gaps:
    """Disjoint ranges in order, each from a first to a last `seq`, inclusive."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    @property
    def events(self) -> int:
        """Number of `seq` that are in a range."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def add(self, first: int, last: int) -> bool:
        """Add a range, which may overlap others. Whether it was not wholly known."""
        start = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if start < end and self._firsts[start] <= first and last <= self._lasts[start]:
            return False
        if start < end:
            first, last = min(first, self._firsts[start]), max(last, self._lasts[end - 1])
        self._firsts[start:end], self._lasts[start:end] = [first], [last]
        if len(self._firsts) > MOST_GAPS:
            self._join_closest()
        return True

    def within(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges between two `seq`, cut to them."""
        if not self._firsts or first > last:
            return []
        start, end = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        return [
            (max(one, first), min(other, last))
            for one, other in zip(self._firsts[start:end], self._lasts[start:end], strict=True)
        ]

    def _join_closest(self) -> None:
        distances = [first - last for first, last in zip(self._firsts[1:], self._lasts, strict=False)]
        closest = distances.index(min(distances))
        del self._firsts[closest + 1], self._lasts[closest]
