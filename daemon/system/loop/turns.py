"""Turns at the event loop, for work that would otherwise take all of it.

Whoever has much to do does it in portions, and before each of them asks whether the turn of all of them is over. If it
is, they wait until everybody else had one: clients that ask, subscribers, signals.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

__all__ = ["Turns"]

SECONDS = 0.01
"""How long all that share the turns may work before everybody else gets a turn."""
WOKEN = 8
"""How many that wait are woken at once: more would find the turn over again."""


class Turns:
    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._until = 0.0
        """When the current turn is over; 0 if none has begun."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def is_over(self) -> bool:
        """Begins a turn if there is none."""
        now = time.perf_counter()
        if not self._until:
            self._until = now + self._seconds
            asyncio.get_running_loop().call_soon(self._end)
        return now >= self._until

    async def next(self) -> None:
        """Wait for another turn."""
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
