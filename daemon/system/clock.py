"""The wall clock, in the daemon's unit, and a watch on its jumps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""

JUMP = 30.0
"""Seconds: less is no jump, but a clock that is being corrected."""


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


class ClockWatch:
    """Notices when the wall clock jumps: somebody has set it, or the machine has slept, during which the other clock
    stands still."""

    def __init__(self, clock: Clock = wall_clock, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._ahead = self._difference()
        self._jumped = -float("inf")
        """When it last jumped ahead, by the steady clock."""

    def look(self) -> float:
        """Return the seconds by which the clock has jumped since the last look; 0 if it has not."""
        before, self._ahead = self._ahead, self._difference()
        jump = self._ahead - before
        if jump > JUMP:
            self._jumped = self._steady()
        return jump if abs(jump) > JUMP else 0.0

    def has_run(self, seconds: float) -> bool:
        """Whether it has not jumped ahead for so long. Only then is something as old as the clock says."""
        return self._steady() - self._jumped >= seconds

    def _difference(self) -> float:
        return self._clock() / 1_000 - self._steady()
