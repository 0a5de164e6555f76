"""Pairs the turns of two sessions that are shown side by side: in order, those whose prompts share the most words.

Two prompts are alike if they share at least `LEAST` of their words. Of all ways to pair turns in order, the one with
the most alike pairs is taken, by the sum of what they share. A turn whose prompt no event states may stand beside any,
where no other pair is lost for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from tooltap.daemon.sessions.title import words_of

__all__ = ["LEAST", "Pair", "aligned"]

Pair: TypeAlias = tuple[int | None, int | None]
"""Indexes of the turns; None on the side that has none like the other."""

LEAST = 0.6
MOST_WORDS = 400
UNKNOWN = 0.001
"""What a pair is worth of which one prompt is not known."""


def aligned(left: Sequence[str | None], right: Sequence[str | None]) -> list[Pair]:
    """`left`, `right`: the prompts of the turns; None where it is not known."""
    first, second = [_counted(one) for one in left], [_counted(one) for one in right]
    worth = [[_worth(one, other) for other in second] for one in first]
    best = [[0.0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for a in reversed(range(len(first))):
        for b in reversed(range(len(second))):
            paired = worth[a][b] + best[a + 1][b + 1] if worth[a][b] else 0.0
            best[a][b] = max(paired, best[a + 1][b], best[a][b + 1])
    return _walked(worth, best)


def _walked(worth: list[list[float]], best: list[list[float]]) -> list[Pair]:
    pairs: list[Pair] = []
    a = b = 0
    while a < len(best) - 1 and b < len(best[0]) - 1:
        if worth[a][b] and best[a][b] == worth[a][b] + best[a + 1][b + 1]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        elif best[a][b] == best[a + 1][b]:
            pairs.append((a, None))
            a += 1
        else:
            pairs.append((None, b))
            b += 1
    pairs += [(one, None) for one in range(a, len(best) - 1)]
    return pairs + [(None, one) for one in range(b, len(best[0]) - 1)]


def _counted(prompt: str | None) -> Counter[str] | None:
    return None if prompt is None else Counter(word.casefold() for word in words_of(prompt)[:MOST_WORDS])


def _worth(one: Counter[str] | None, other: Counter[str] | None) -> float:
    """Return the part of their words that two prompts share; 0 if they are not alike."""
    if one is None or other is None:
        return UNKNOWN
    shared = 2 * (one & other).total() / ((one.total() + other.total()) or 1)
    return shared if shared >= LEAST else 0.0
