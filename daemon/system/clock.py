"""The wall clock, in the daemon's unit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Clock", "wall_clock"]

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""


def wall_clock() -> int:
    return time.time_ns() // 1_000_000
