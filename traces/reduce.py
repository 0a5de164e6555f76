"""The fewest lines of a stream that still show what is to be shown, found by leaving lines out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["reduced"]

T = TypeVar("T")


def reduced(lines: Sequence[T], shows: Callable[[list[T]], bool]) -> list[T]:
    """A part of `lines`, which show it, of which no line can be left out. The last line is never.

    First the last line alone is tried, then ever smaller pieces of what is before it are left out.
    """
    *before, last = lines
    if shows([last]):
        return [last]
    size = len(before)
    while size:
        size = (size + 1) // 2
        left_out = False
        for start in reversed(range(0, len(before), size)):
            rest = before[:start] + before[start + size :]
            if len(rest) < len(before) and shows([*rest, last]):
                before, left_out = rest, True
        if size == 1 and not left_out:
            break
    return [*before, last]
