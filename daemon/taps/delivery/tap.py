"""The tap of one stream: splits data into lines and puts them into an outbox, from where they are spooled and delivered
by a thread each. So a tap never delays the agent.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tooltap.daemon.taps.delivery.background import BackgroundDelivery
from tooltap.daemon.taps.delivery.outbox import MAX_BYTES, Outbox, SpoolLimits, StreamOptions
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES, LongLine, Splitter

if TYPE_CHECKING:
    from tooltap.daemon.taps.delivery.spooler import Spooler
    from tooltap.protocol.inputs import Direction

STALL = 2.0
"""Seconds without progress after which the end of an agent no longer waits for its last lines."""
REMOVAL = 0.5
"""Seconds for removing a spool that is not needed any more; after that it is left to the daemon."""


class Tap:
    """`socket`: of the daemon; `max_bytes`: limit for the memory of the stream's lines; `begin`: how many lines the
    daemon has of a stream that is resumed."""

    def __init__(
        self, options: StreamOptions, socket: Path, spool: SpoolLimits, *, max_bytes: int = MAX_BYTES, begin: int = 0
    ) -> None:
        self._options = options
        self._socket = socket
        self._limits = spool
        self._splitters: dict[Direction, Splitter] = {}
        self._outbox = Outbox(max_bytes, begin=begin)
        self._outbox.obstacle = "neither the daemon nor the spool keeps up"
        self._delivery = BackgroundDelivery(
            self._outbox, options, socket, patience=math.inf, read_spool=lambda after: self._spooler.read(after)
        )
        self._spooler: Spooler
        self._spooling = threading.Thread(target=self._spool, daemon=True)
        self._lock = threading.Lock()
        self._started = False
        self._finished = False
        self._failure: Exception | None = None

    def take(self, data: bytes, direction: Direction) -> None:
        """Add data that has just been read. Like `put` and `lose` it never raises, and never waits."""
        self._add(lambda: self._outbox.put(self._split(data, direction), _now(), direction))

    def put(self, lines: Iterable[bytes | LongLine], direction: Direction, t: int | None = None) -> None:
        """Add whole lines. `t`: when they were read, in ms since the epoch; default: now."""
        self._add(lambda: self._outbox.put(lines, _now() if t is None else t, direction))

    def lose(self, lines: int, size: int, reason: str) -> None:
        """Add a loss: `lines` lines, together `size` bytes, are missing here."""
        self._add(lambda: self._outbox.lose(lines, size, reason))

    @property
    def problem(self) -> str | None:
        """Why no lines reach the daemon at the moment."""
        problem = self._failure or self._delivery.problem
        return None if problem is None else str(problem)

    def finish(self, *, suspend: bool = False) -> str | None:
        """End the stream, or with `suspend` leave it to a tap that resumes it. Wait while its last lines are still
        being delivered; the others stay in the spool. Return what to tell the user if not all lines were delivered."""
        with self._lock:
            self._finished = True
            self._outbox.ended = _now()
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
            from tooltap.daemon.taps.delivery.spooler import Spooler

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
        lost = self._outbox.rest()[0] + dropped
        why = self._delivery.problem or "the daemon did not keep up"
        waiting = max(0, lines - self._outbox.acked - lost)
        if not lost:
            return f"{waiting} of {lines} lines wait in the spool: {why}"
        kept = f"{waiting} of {lines} lines wait in the spool and {lost}" if waiting else f"{lost} of {lines} lines"
        return f"{kept} are lost ({self._outbox.obstacle}): {why}"


def _now() -> int:
    return time.time_ns() // 1_000_000
