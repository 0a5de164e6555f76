"""Runs a delivery in a thread of its own, so that reading lines and sending them do not wait for each other.

Heavy modules are imported only in the thread, so that the agent starts at once.
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
    from tooltap.protocol.frames import Done, Suspended

CHECK = 0.2
"""Seconds between checks whether the thread is still alive."""


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None] | None
    delivery: Delivery


class BackgroundDelivery:
    """All methods are for one thread, except `wake`, which any thread that puts lines in may call."""

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
        self.end: Done | Suspended | None = None
        """What the daemon has answered, once the end of the stream, or that it is suspended, is durable."""
        self.failure: Exception | None = None
        """Why the delivery ended without `end`."""
        self._arguments = (outbox, options, socket, patience, read_spool)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._running: _Running | None = None
        self._started = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Note that lines have been put in."""
        if self._running is not None:
            self._call(self._running.delivery.wake)

    def wait_for_room(self, max_bytes: int) -> bool:
        """Wait until the outbox takes less memory than this. Return False if the delivery has ended."""
        while self._thread.is_alive() and not self.outbox.wait_for_room(max_bytes, CHECK):
            pass
        return self._thread.is_alive()

    def finish(self, patience: float, *, suspend: bool = False) -> None:
        """Note that all lines have been put in. From now on wait `patience` seconds for a daemon that is away.
        `suspend`: the stream does not end."""
        if running := self._wait_until_started():
            self._call(lambda: running.delivery.finish(patience, suspend=suspend))

    def wait(self, stall: float | None = None) -> bool:
        """Wait until the delivery has ended, and return whether it has. With `stall`: stop waiting after that many
        seconds without an ack, or if all other lines are on disk."""
        acked = -1
        while self._thread.is_alive() and acked != self.outbox.acked:
            acked = self.outbox.acked
            self._thread.join(stall)
            if self.outbox.rest() == (0, 0):
                break
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop without ending the stream."""
        if (running := self._wait_until_started()) and running.task is not None:
            self._call(running.task.cancel)
        self._thread.join()

    @property
    def problem(self) -> Exception | None:
        """Why no lines reach the daemon, if that is known."""
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
        self.end = await delivery.run()
