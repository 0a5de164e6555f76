"""The axis of a minimap: time, compressed, so that what happened has room.

Between two moments at which a call, a turn or a question begins or ends, time takes its length, except that

- where nothing runs, or all that runs waits for a person, it takes at most `IDLE`;
- where a call runs, what is longer than `BUSY` counts by its logarithm;
- every call begins at least `APART` after what was before, so that calls of one moment, or without times, lie side by
  side.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

__all__ = ["Moment", "places"]

IDLE = 20_000
BUSY = 60_000
APART = 200
"""Milliseconds."""


class Moment(NamedTuple):
    """Something begins or ends. Moments are sorted by their time, then by their place in the journal."""

    ts: int
    seq: int
    is_call: bool = False
    """Whether a call begins."""
    running: int = 0
    """How many more calls run from here on."""
    waiting: int = 0
    """How many more questions are open from here on."""


def places(moments: Sequence[Moment], width: float) -> list[float]:
    """Return where each of these sorted moments is, from 0 to `width`."""
    reached, found = 0.0, []
    running = waiting = 0
    before: Moment | None = None
    for moment in moments:
        if before is not None:
            step = _length(moment.ts - before.ts, is_busy=running > waiting)
            reached += max(step, APART) if moment.is_call else step
        found.append(reached)
        running, waiting = running + moment.running, waiting + moment.waiting
        before = moment
    scale = width / reached if reached else 0.0
    return [one * scale for one in found]


def _length(milliseconds: int, *, is_busy: bool) -> float:
    if not is_busy:
        return min(milliseconds, IDLE)
    return milliseconds if milliseconds <= BUSY else BUSY * (1 + log(milliseconds / BUSY))
