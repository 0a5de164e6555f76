"""The wall clock, in milliseconds, and detection of its jumps."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""A function that returns the time in milliseconds since the epoch."""

JUMP = 30.0
"""Smallest jump, in seconds: smaller differences are corrections of the clock, for example by NTP."""


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def iso_time(milliseconds: int | None) -> str | None:
    """A time in UTC, to the second: `2026-11-29T10:46:58Z`; None for None, and for a time that no calendar has."""
    if milliseconds is None:
        return None
    try:
        return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):  # agents state it
        return None


class ClockWatch:
    """Detects jumps of the wall clock against the monotonic clock: it was set, or the machine was suspended, during
    which the monotonic clock stands still."""

    def __init__(self, clock: Clock = wall_clock, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._ahead = self._difference()
        self._jumped = -float("inf")
        """Monotonic time of the last jump ahead."""

    def look(self) -> float:
        """Return the seconds by which the clock has jumped since the last look; 0 if it has not."""
        before, self._ahead = self._ahead, self._difference()
        jump = self._ahead - before
        if jump > JUMP:
            self._jumped = self._steady()
        return jump if abs(jump) > JUMP else 0.0

    def has_run(self, seconds: float) -> bool:
        """Whether the clock has not jumped ahead for this long. Only then can ages computed with it be trusted."""
        return self._steady() - self._jumped >= seconds

    def _difference(self) -> float:
        return self._clock() / 1_000 - self._steady()
