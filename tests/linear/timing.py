"""Measures processor time rather than elapsed time, so that the load of the machine does not count."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.steps import steps_grow

__all__ = ["TIMED", "Cost", "cost", "grows"]

MAX_EXPONENT = 1.1
TIMED = "TOOLTAP_LINEAR" in os.environ
"""Whether time is measured: `whole`, for everything, or `sample`. Otherwise steps are counted."""
SECONDS_PER_BYTE = (0.5 if os.environ.get("TOOLTAP_LINEAR") == "whole" else 3.0) / 1_000_000
"""Maximum processor time per byte of a line. Beside other tests, a processor does a third as much in the same time, or
less; the real limit is that of `make lab-linear`, which runs alone."""
STEPPED = 5
"""Factor by which the input is smaller if steps are counted."""
_NOISE = 0.004
"""Seconds of noise, which say nothing about growth: garbage collection, a page fault, a cold cache."""
_MANY_BYTES = 1_000_000
_MEMORY = 1.5
"""Factor for the time per byte if the data no longer fits into the processor's caches."""
_TRIES = 4
_QUICK = 1.0
"""Seconds below which a measurement is repeated with more input."""


class Cost(NamedTuple):
    size: int
    seconds: float

    @property
    def is_dear(self) -> bool:
        return self.seconds > _NOISE + self.size * SECONDS_PER_BYTE


def cost(work: Callable[[], Any], size: int, tries: int = 1) -> Cost:
    """Return the minimum time of several tries. Garbage collection is off, since its frequency depends on what the
    process did before."""
    best = math.inf
    gc.disable()
    try:
        for _ in range(tries):
            began = time.thread_time()
            work()
            best = min(best, time.thread_time() - began)
    finally:
        gc.enable()
    return Cost(size, best)


def exponent(small: Cost, large: Cost) -> float:
    """Return the exponent of growth: 1 for linear, 2 for quadratic."""
    return math.log(large.seconds / max(small.seconds, _NOISE / 8)) / math.log(large.size / small.size)


def is_steep(small: Cost, large: Cost) -> bool:
    """Whether the time grows faster than it may, by more than the noise."""
    memory = _MEMORY if large.size > _MANY_BYTES else 1.0
    allowed: float = _NOISE + memory * small.seconds * (large.size / small.size) ** MAX_EXPONENT
    return large.seconds > allowed


def grows(make: Callable[[int], Callable[[], Any]], sizes: tuple[int, ...], *, timed: bool = TIMED) -> str | None:
    """Explain why the work is not linear; None if it is. `make(size)` prepares work on input of that size. Work that is
    one call of C code is always to be `timed`: it is one step, whatever its size.

    Goes from the smallest size to the largest, so that superlinear work is noticed before it takes minutes. What seems
    steep is measured again, and then with even more input: data outgrows a processor cache once, while superlinear work
    stays steep.
    """
    if not timed:
        small, large = sizes[-2] // STEPPED, sizes[-1] // STEPPED
        return steps_grow(make, small, large) and steps_grow(make, large, 4 * large)
    before: Cost | None = None
    for size in sizes:
        before, now, why = _step(make, before, size)
        if why is not None and before is not None and not now.is_dear and now.seconds < _QUICK:
            why = _step(make, now, 4 * size)[2]
        if why is not None:
            return why
        before = now
    return None


def _step(
    make: Callable[[int], Callable[[], Any]], before: Cost | None, size: int
) -> tuple[Cost | None, Cost, str | None]:
    """Measure the next size; returns the costs of both sizes, and what is wrong with the growth."""
    work = make(size)
    now = cost(work, size)
    for _ in range(_TRIES):
        steep = before is not None and is_steep(before, now)
        if not steep and not now.is_dear:
            return before, now, None
        now = min(now, cost(work, size), key=lambda one: one.seconds)
        if before is not None and now.seconds < 2:
            before = max(before, cost(make(before.size), before.size, 2), key=lambda one: one.seconds)
    seen = f"{now.seconds:.3f} s for {now.size} bytes"
    if before is not None:
        seen += f", {before.seconds:.3f} s for {before.size}"
    if now.is_dear:
        return before, now, seen
    if before is not None and is_steep(before, now):
        return before, now, f"{seen}: exponent {exponent(before, now):.2f}"
    return before, now, None
