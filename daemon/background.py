"""A delivery in a thread of its own, for a publisher that comes first: nothing here makes it wait or fail.

Nothing heavy is imported before the thread runs, so that an agent can be started at once.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tooltap.daemon.outbox import Outbox, StreamOptions
from tooltap.normalizers.framing import LongLine

if TYPE_CHECKING:
    from tooltap.daemon.delivery import Delivery

__all__ = ["BackgroundDelivery"]

STALL = 2.0
"""Seconds without progress after which a publisher that is done does not wait any longer."""


class BackgroundDelivery:
    """`start`, `put` and `finish` are for one thread: the publisher's."""

    def __init__(self, options: StreamOptions, socket: Path | None, outbox: Outbox | None = None) -> None:
        self.outbox = outbox or Outbox()
        self._options = options
        self._socket = socket
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop
        self._delivery: Delivery
        self._task: asyncio.Task[object]

    def start(self) -> None:
        self._thread.start()

    def put(self, lines: Iterable[bytes | LongLine], t: int) -> None:
        """Take in lines the agent printed; `t`: ms since the epoch."""
        for line in lines:
            self.outbox.put(line, t, "out")
        if self._ready.is_set():
            self._call(self._delivery.wake)

    def finish(self, stall: float = STALL) -> str | None:
        """All lines have been put in: wait while they still get through. A sentence about those that did not."""
        self._ready.wait(stall)
        if self._ready.is_set():
            self._call(self._delivery.finish, 0.0)
            acked = None
            while self._thread.is_alive() and acked != self.outbox.acked:
                acked = self.outbox.acked
                self._thread.join(stall)
            self._call(self._task.cancel)
        return self._summary()

    def _summary(self) -> str | None:
        outbox = self.outbox
        missing = outbox.lines - outbox.acked
        if missing == 0 and self._failure is None:
            return f"{outbox.dropped} of {outbox.lines} lines were dropped" if outbox.dropped else None
        why = self._failure or (self._delivery.problem if self._ready.is_set() else None)
        return f"{missing} of {outbox.lines} lines were not tapped: {why or 'the daemon did not keep up'}"

    def _call(self, function: object, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the delivery has ended
            pass

    def _run(self) -> None:
        try:
            asyncio.run(self._deliver())
        except Exception as error:
            self._failure = error
        except asyncio.CancelledError:
            pass
        finally:
            self._ready.set()

    async def _deliver(self) -> None:
        from tooltap.daemon.delivery import Delivery

        self._delivery = Delivery(self.outbox, self._options, self._socket, patience=math.inf)
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._ready.set()
        await self._delivery.run()
