"""A delivery in a thread of its own, so that reading lines and talking to the daemon do not wait for each other.

Nothing heavy is imported before the thread runs: an agent is started at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tooltap.daemon.taps.delivery.outbox import Outbox, StreamOptions

if TYPE_CHECKING:
    import asyncio

    from tooltap.daemon.taps.delivery.delivery import Delivery, ReadSpool
    from tooltap.protocol.frames import Done

__all__ = ["BackgroundDelivery"]

CHECK = 0.2
"""Seconds between looks at whether the thread still lives."""


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None] | None
    delivery: Delivery


class BackgroundDelivery:
    """Its methods are for one thread, save `wake`, which is for those that put lines into the outbox."""

    def __init__(
        self,
        outbox: Outbox,
        options: StreamOptions,
        socket: Path | None,
        *,
        patience: float,
        read_spool: ReadSpool | None = None,
    ) -> None:
        self.outbox = outbox
        self.done: Done | None = None
        """The statistics, once the end of the stream is durable."""
        self.failure: Exception | None = None
        """Why the delivery has ended without `done`."""
        self._arguments = (outbox, options, socket, patience, read_spool)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._running: _Running | None = None
        self._started = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Lines have been put in."""
        if self._running is not None:
            self._call(self._running.delivery.wake)

    def wait_for_room(self, max_bytes: int) -> bool:
        """Until the outbox holds less than this. False if the delivery has ended."""
        while self._thread.is_alive() and not self.outbox.wait_for_room(max_bytes, CHECK):
            pass
        return self._thread.is_alive()

    def finish(self, patience: float) -> None:
        """All lines have been put in; a daemon that is away is waited for no longer than `patience` seconds."""
        if running := self._wait_until_started():
            self._call(lambda: running.delivery.finish(patience))

    def wait(self, stall: float | None = None) -> bool:
        """Until the delivery has ended. With `stall`: or for that many seconds nothing has got through; where the rest
        is on disk there is no need to wait any longer than that. Whether it has ended."""
        acked = -1
        while self._thread.is_alive() and acked != self.outbox.acked:
            acked = self.outbox.acked
            self._thread.join(stall)
            if self.outbox.rest() == (0, 0):
                break
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Leave the stream as it is."""
        if (running := self._wait_until_started()) and running.task is not None:
            self._call(running.task.cancel)
        self._thread.join()

    @property
    def problem(self) -> Exception | None:
        """Why nothing gets through, where that is known."""
        return self.failure or (self._running.delivery.problem if self._running else None)

    def _wait_until_started(self) -> _Running | None:
        while self._thread.is_alive() and not self._started.wait(CHECK):
            pass
        return self._running

    def _call(self, function: Callable[[], object]) -> None:
        assert self._running is not None
        try:
            self._running.loop.call_soon_threadsafe(function)
        except RuntimeError:  # the delivery has ended
            pass

    def _run(self) -> None:
        import asyncio

        try:
            asyncio.run(self._deliver())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self.failure = error

    async def _deliver(self) -> None:
        import asyncio

        from tooltap.daemon.taps.delivery.delivery import Delivery

        # anyio 4.16: data that comes at the moment a connection is closed is an "Exception in callback" on stderr.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        delivery = Delivery(*self._arguments)
        self._running = _Running(asyncio.get_running_loop(), asyncio.current_task(), delivery)
        self._started.set()
        self.done = await delivery.run()
