"""Measures cost in steps, that is, executed lines of Python, which do not depend on the load of the machine.

A call of C code counts as the line that calls it; `make lab-linear` measures that, in time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["steps", "steps_grow"]

EXPONENT = 1.15


def steps(work: Callable[[], object]) -> int:
    """Return how many trace events (calls, lines, returns) `work` causes in this thread."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def steps_grow(make: Callable[[int], Callable[[], object]], small: int, large: int) -> str | None:
    """Explain why the steps grow faster than the size; None if they do not. `make(size)` prepares the work of that
    size."""
    few, many = steps(make(small)), steps(make(large))
    if many <= few * (large / small) ** EXPONENT:
        return None
    return f"{few} steps for {small}, {many} for {large}"
