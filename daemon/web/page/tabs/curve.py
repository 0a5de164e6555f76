"""The curve of the context as SVG: how full it was at each request, where it was compacted, where turns begin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tooltap.daemon.web.page.tabs.spending import Compaction, Point

__all__ = ["Curve", "curve_of"]

DRAWN = 600
"""Points; with more, each shows the highest of its neighbours."""
TURN_LINES = 40
"""More lines than these would hide the curve."""
TOP = 12
"""Above the curve, for words."""


class Mark(NamedTuple):
    x: float
    word: str
    """Empty if there is no room for it."""
    anchor: str
    """Where the word is: `start`, right of the line, or `end`."""


class Curve(NamedTuple):
    width: int
    height: int
    line: str
    """The path of the curve."""
    area: str
    marks: list[Mark]
    """Compactions."""
    turns: list[float]


def curve_of(
    points: Sequence[Point], compactions: Sequence[Compaction], size: int | None, width: int, height: int
) -> Curve | None:
    """Return the curve; None if there are too few points for one. `size`: of the window, which is the full height."""
    if len(points) < 2:
        return None
    most = max(size or 0, *(point.used for point in points), 1)
    drawn = _thinned(points)
    step = width / (len(drawn) - 1)
    bottom = height - 1
    places = [
        (round(at * step, 1), round(bottom - (bottom - TOP) * point.used / most, 1)) for at, point in enumerate(drawn)
    ]
    line = "M" + " L".join(f"{x:g} {y:g}" for x, y in places)
    starts = [round(at * step, 1) for at, (one, other) in enumerate(pairwise(drawn), 1) if one.turn != other.turn]
    return Curve(
        width,
        height,
        line,
        f"{line} L{width} {height} L0 {height} Z",
        _marks(drawn, compactions, step, width),
        starts if len(starts) <= TURN_LINES else [],
    )


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    if len(points) <= DRAWN:
        return points
    parts = [points[len(points) * at // DRAWN : len(points) * (at + 1) // DRAWN] for at in range(DRAWN)]
    return [*(max(part, key=lambda point: point.used) for part in parts), points[-1]]


def _marks(drawn: Sequence[Point], compactions: Sequence[Compaction], step: float, width: int) -> list[Mark]:
    """A compaction stands between the requests before and after it."""
    marks: list[Mark] = []
    room = -1.0
    for one in compactions:
        after = sum(point.seq < one.place.seq for point in drawn)
        x = round(min(max((after - 0.5) * step, 0), width), 1)
        word = "compaction failed" if one.has_failed else "compacted"
        length = 5.2 * len(word)
        anchor = "start" if x + length < width else "end"
        begins = x if anchor == "start" else x - length
        has_room = begins > room
        marks.append(Mark(x, word if has_room else "", anchor))
        room = begins + length if has_room else room
    return marks
