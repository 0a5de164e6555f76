"""Cooperative time slices for long work on the event loop.

Long work is done in portions. Before each portion its task asks whether the slice, which all such tasks share, is over.
If it is, the task waits until the loop has served everything else: clients that ask, subscribers, signals.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

SECONDS = 0.01
"""Length of a slice."""
WOKEN = 8
"""Waiting tasks woken at once: more would find the slice over again."""


class TimeSlices:
    """The slices that several tasks share. `seconds`: the length of each."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._until = 0.0
        """When the current slice is over; 0 if none has begun."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def is_over(self) -> bool:
        """Whether the current slice is over. Begins one if there is none."""
        now = time.perf_counter()
        if not self._until:
            self._until = now + self._seconds
            asyncio.get_running_loop().call_soon(self._end)
        return now >= self._until

    async def next(self) -> None:
        """Wait for the next slice."""
        while self.is_over():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _end(self) -> None:
        self._until = 0.0
        for _ in range(min(WOKEN, len(self._waiting))):
            future = self._waiting.popleft()
            if not future.done():  # the waiting task was cancelled
                future.set_result(None)
