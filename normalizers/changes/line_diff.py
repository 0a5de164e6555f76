"""Diff of two lists of lines or words: the fewest removals and additions, in bounded time.

`blocks` returns the differing ranges in order, as `(a1, a2, b1, b2)`: `a[a1:a2]` became `b[b1:b2]`. If more than
`MAX_DIFFERENCES` lines differ, lines that occur exactly once in both lists are matched first; between two such anchors,
a range that still differs too much becomes one block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

Block: TypeAlias = tuple[int, int, int, int]

MAX_DIFFERENCES = 400
MAX_STEPS = 2_000_000
"""Maximum number of line comparisons for one diff."""


def blocks(a: Sequence[Hashable], b: Sequence[Hashable], most: int = MAX_STEPS) -> list[Block]:
    """Return the differing ranges of two lists. `most`: approximate limit of line comparisons."""
    start, a_end, b_end = _trimmed(a, b)
    budget = _Budget(most)
    inner_a, inner_b = a[start:a_end], b[start:b_end]
    found = _shortest(inner_a, inner_b, budget)
    if found is None:
        found = list(_between_unique(inner_a, inner_b, budget))
    return _slid(a, b, [(a1 + start, a2 + start, b1 + start, b2 + start) for a1, a2, b1, b2 in found])


class _Budget:
    def __init__(self, steps: int) -> None:
        self.steps = steps


def _trimmed(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[int, int, int]:
    """Strip the common prefix and suffix: (first differing index, end of the differing range in `a`, end of it in
    `b`)."""
    least = min(len(a), len(b))
    start = next((n for n in range(least) if a[n] != b[n]), least)
    same = next((n for n in range(least - start) if a[-1 - n] != b[-1 - n]), least - start)
    return start, len(a) - same, len(b) - same


def _shortest(a: Sequence[Hashable], b: Sequence[Hashable], budget: _Budget) -> list[Block] | None:
    """The shortest difference, by the greedy algorithm of Myers; None if the lists are too different."""
    if set(a).isdisjoint(b):
        return [(0, len(a), 0, len(b))] if a or b else []
    reached = {1: 0}  # diagonal -> how far in `a`
    rounds: list[dict[int, int]] = []
    for distance in range(min(len(a) + len(b), MAX_DIFFERENCES) + 1):
        rounds.append(dict(reached))
        for diagonal in range(-distance, distance + 1, 2):
            down = diagonal == -distance or (diagonal != distance and reached[diagonal - 1] < reached[diagonal + 1])
            x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            y = x - diagonal
            first = x
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            reached[diagonal] = x
            budget.steps -= x - first + 1
            if x >= len(a) and y >= len(b):
                return _walked_back(rounds, len(a), len(b))
        if budget.steps < 0:
            return None
    return None


def _walked_back(rounds: list[dict[int, int]], x: int, y: int) -> list[Block]:
    found: list[Block] = []
    for distance in range(len(rounds) - 1, 0, -1):
        reached, diagonal = rounds[distance], x - y
        down = diagonal == -distance or (diagonal != distance and reached[diagonal - 1] < reached[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        x = reached[before]
        y = x - before
        step = (x, x, y, y + 1) if down else (x, x + 1, y, y)
        if found and (found[-1][0], found[-1][2]) == (step[1], step[3]):
            found[-1] = (step[0], found[-1][1], step[2], found[-1][3])
        else:
            found.append(step)
    return found[::-1]


def _between_unique(a: Sequence[Hashable], b: Sequence[Hashable], budget: _Budget) -> Iterator[Block]:
    a_at = b_at = 0
    for a_next, b_next in [*_unique_in_order(a, b), (len(a), len(b))]:
        inner_a, inner_b = a[a_at:a_next], b[b_at:b_next]
        start, a_end, b_end = _trimmed(inner_a, inner_b)
        inner = _shortest(inner_a[start:a_end], inner_b[start:b_end], budget) if budget.steps > 0 else None
        if inner is None:
            inner = [(0, a_end - start, 0, b_end - start)]
        for a1, a2, b1, b2 in inner:
            yield a1 + a_at + start, a2 + a_at + start, b1 + b_at + start, b2 + b_at + start
        a_at, b_at = a_next + 1, b_next + 1


def _unique_in_order(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Index pairs of lines that occur exactly once in both lists: a longest subset in the same order."""
    in_a, in_b = Counter(a), Counter(b)
    places = {line: n for n, line in enumerate(b) if in_b[line] == 1 and in_a[line] == 1}
    pairs = [(n, places[line]) for n, line in enumerate(a) if line in places]
    tails: list[int] = []
    last: list[int] = []  # index in `pairs` of the end of each length
    before: list[int] = []
    for index, (_, b_place) in enumerate(pairs):
        length = bisect_left(tails, b_place)
        before.append(last[length - 1] if length else -1)
        tails[length : length + 1] = [b_place]
        last[length : length + 1] = [index]
    kept: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        kept.append(pairs[index])
        index = before[index]
    return kept[::-1]


def _slid(a: Sequence[Hashable], b: Sequence[Hashable], found: list[Block]) -> list[Block]:
    """Move blocks as far down as equal lines allow, as git does."""
    slid: list[Block] = []
    for a1, a2, b1, b2 in reversed(found):
        a_limit, b_limit = (slid[-1][0], slid[-1][2]) if slid else (len(a), len(b))
        if a1 == a2:
            while b2 < b_limit and b[b1] == b[b2]:
                a1, a2, b1, b2 = a1 + 1, a2 + 1, b1 + 1, b2 + 1
        elif b1 == b2:
            while a2 < a_limit and a[a1] == a[a2]:
                a1, a2, b1, b2 = a1 + 1, a2 + 1, b1 + 1, b2 + 1
        if slid and (a2, b2) == (a_limit, b_limit):
            _, a2, _, b2 = slid.pop()
        slid.append((a1, a2, b1, b2))
    return slid[::-1]
