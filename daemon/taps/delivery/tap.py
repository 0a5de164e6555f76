"""The tap of one stream: splits data into lines and puts them into an outbox. Two threads spool and deliver them, so a
tap never delays the agent. Heavy modules are imported only in these threads, so that the agent starts at once.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tooltap.daemon.taps.delivery.outbox import MAX_BYTES, Outbox, SpoolLimits, StreamOptions
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES, LongLine, Splitter

if TYPE_CHECKING:
    import asyncio

    from tooltap.daemon.taps.delivery.delivery import Delivery, ReadSpool, WriteToAgent
    from tooltap.daemon.taps.delivery.spool import Spooler
    from tooltap.protocol.frames import Done, Suspended
    from tooltap.protocol.inputs import Direction, ProcessEnd
    from tooltap.protocol.stats import Statistics


STALL = 2.0
"""Seconds without progress after which `finish` stops waiting for the delivery of the last lines."""
REMOVAL = 0.5
"""Timeout in seconds for removing a spool that is no longer needed; after that, it is left to the daemon."""


class Tap:
    """The tap of one stream. `socket`: socket of the daemon; `max_bytes`: memory limit for the stream's lines; `begin`:
    number of lines that the daemon has of a resumed stream; `to_agent`: writes to the agent, if the tap can."""

    def __init__(
        self,
        options: StreamOptions,
        socket: Path,
        spool: SpoolLimits,
        *,
        max_bytes: int = MAX_BYTES,
        begin: int = 0,
        to_agent: WriteToAgent | None = None,
    ) -> None:
        self._options = options
        self._socket = socket
        self._limits = spool
        self._splitters: dict[Direction, Splitter] = {}
        self._outbox = Outbox(max_bytes, begin=begin)
        self._outbox.obstacle = "neither the daemon nor the spool keeps up"
        self._delivery = BackgroundDelivery(
            self._outbox,
            options,
            socket,
            patience=math.inf,
            read_spool=lambda after: self._spooler.read(after),
            to_agent=to_agent,
        )
        self._spooler: Spooler
        self._spooling = threading.Thread(target=self._spool, daemon=True)
        self._lock = threading.Lock()
        self._started = False
        self._finished = False
        self._failure: Exception | None = None

    def take(self, data: bytes, direction: Direction) -> None:
        """Add data that has just been read. Like `put` and `lose`, it never raises and never blocks."""
        self._add(lambda: self._outbox.put(self._split(data, direction), _now(), direction))

    def put(self, lines: Iterable[bytes | LongLine], direction: Direction, t: int | None = None) -> None:
        """Add whole lines. `t`: when they were read, in ms since the epoch; default: now."""
        self._add(lambda: self._outbox.put(lines, _now() if t is None else t, direction))

    def lose(self, lines: int, size: int, reason: str) -> None:
        """Record a loss: `lines` lines, `size` bytes in all, are missing here."""
        self._add(lambda: self._outbox.lose(lines, size, reason))

    @property
    def statistics(self) -> Statistics | None:
        """What has become of the lines, as the daemon confirmed it with the end of the stream; None if it did not."""
        from tooltap.protocol.frames import Done

        end = self._delivery.end
        return end if isinstance(end, Done) else None

    @property
    def problem(self) -> str | None:
        """The reason why no lines reach the daemon at the moment, or None."""
        problem = self._failure or self._delivery.problem
        return None if problem is None else str(problem)

    def finish(self, *, suspend: bool = False, process: ProcessEnd | None = None) -> str | None:
        """End the stream, or with `suspend` suspend it for a tap that resumes it. Waits while the delivery of the last
        lines makes progress; undelivered lines stay in the spool. Returns a message for the user if not all lines were
        delivered, else None. `process`: how the agent's process ended, if the tap started it."""
        with self._lock:
            self._finished = True
            self._outbox.ended, self._outbox.process = _now(), process
            for direction, splitter in self._splitters.items():
                if (last := splitter.finish()) is not None:
                    self._outbox.put([last], _now(), direction)
        if not self._started:
            return None
        try:
            self._delivery.finish(patience=0.0, suspend=suspend)
            self._delivery.wait(STALL)
            delivered = self._delivery.end is not None
            self._outbox.finish(delivered=delivered, suspended=suspend)
            self._spooling.join(REMOVAL if delivered else STALL)
        except KeyboardInterrupt:
            pass
        return self._summary()

    def _add(self, add: Callable[[], None]) -> None:
        if self._failure is not None:
            return
        try:
            with self._lock:
                if self._finished:
                    return
                add()
                if not self._started:
                    self._started = True
                    self._delivery.start()
                    self._spooling.start()
            self._delivery.wake()
        except Exception as error:  # the agent comes first
            self._failure = error

    def _split(self, data: bytes, direction: Direction) -> list[bytes | LongLine]:
        return self._splitters.setdefault(direction, Splitter(MAX_LINE_BYTES)).feed(data)

    def _spool(self) -> None:
        try:
            from tooltap.daemon.taps.delivery.spool import Spooler

            self._spooler = Spooler(self._outbox, self._options, self._socket, self._limits)
            self._spooler.run()
        except Exception as error:
            self._outbox.obstacle = f"the spool failed: {error!r}"

    def _summary(self) -> str | None:
        lines, dropped = self._outbox.lines, self._outbox.dropped
        if self._failure is not None:
            return f"tapping failed after {lines} lines: {self._failure!r}"
        if self._outbox.delivered:
            return f"{dropped} of {lines} lines were dropped: {self._outbox.obstacle}" if dropped else None
        lost = lines - self._outbox.acked if self._outbox.is_spool_gone else self._outbox.rest()[0] + dropped
        why = self._delivery.problem or "the daemon did not keep up"
        waiting = max(0, lines - self._outbox.acked - lost)
        if not lost:
            return f"{waiting} of {lines} lines wait in the spool: {why}"
        kept = f"{waiting} of {lines} lines wait in the spool and {lost}" if waiting else f"{lost} of {lines} lines"
        return f"{kept} are lost ({self._outbox.obstacle}): {why}"


def _now() -> int:
    return time.time_ns() // 1_000_000


# -- the delivery in its thread ---------------------------------------------------------------------------------------

CHECK = 0.2
"""Seconds between checks whether the thread is still alive."""


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None] | None
    delivery: Delivery


class BackgroundDelivery:
    """Runs a delivery in its own thread, so that reading lines and sending them do not wait for each other. All
    methods are for one thread, except `wake`, which any thread that puts lines in may call."""

    def __init__(
        self,
        outbox: Outbox,
        options: StreamOptions,
        socket: Path | None,
        *,
        patience: float,
        read_spool: ReadSpool | None = None,
        to_agent: WriteToAgent | None = None,
    ) -> None:
        self.outbox = outbox
        self.end: Done | Suspended | None = None
        """The daemon's confirmation that the end or suspension of the stream is durable; None before that."""
        self.failure: Exception | None = None
        """The error with which the delivery ended, without a confirmation; else None."""
        self._arguments = (outbox, options, socket, patience, read_spool, to_agent)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._running: _Running | None = None
        self._started = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Wake the delivery: lines have been put in."""
        if self._running is not None:
            self._call(self._running.delivery.wake)

    def wait_for_room(self, max_bytes: int) -> bool:
        """Wait until the outbox takes less memory than this. Return False if the delivery has ended."""
        while self._thread.is_alive() and not self.outbox.wait_for_room(max_bytes, CHECK):
            pass
        return self._thread.is_alive()

    def finish(self, patience: float, *, suspend: bool = False) -> None:
        """Declare that all lines have been put in. From now on, wait `patience` seconds for an unreachable daemon.
        `suspend`: suspend the stream instead of ending it."""
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
        """The reason why no lines reach the daemon, or None."""
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


# -- its problems ----------------------------------------------------------------------------------------------------

PERIOD = 1.0
"""Seconds between two checks."""


async def report_problems(problem: Callable[[], str | None]) -> None:
    """Log when a tap's lines no longer reach the daemon, and when they do again. Runs until cancelled. `problem`
    returns the current reason, or None."""
    import anyio

    from tooltap.daemon.system.logs import get_logger

    log = get_logger("tap")
    reported: str | None = None
    while True:
        now = problem()
        if now is not None and reported is None:
            log.warning("lines wait in the spool", reason=now)
        elif now is None and reported is not None:
            log.info("lines are delivered again")
        reported = now
        await anyio.sleep(PERIOD)
