"""One subscriber: replay from the journal, then live, and back to the journal when it does not keep up.

Its cursor is the `seq` up to which it has everything it wants. While it is live the cursor is the hub's; it has a task
only while it catches up.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from tooltap.daemon.connection import Connection
from tooltap.daemon.hub import Audience, Hub, Piece, cut
from tooltap.daemon.journal import JournalError
from tooltap.daemon.logs import get_logger
from tooltap.protocol.events import with_seq
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import At, ErrorFrame, FrameError, Gap, Live, Subscribe, Subscribed

__all__ = ["Subscription"]

_log = get_logger("subscription")


class Start(NamedTuple):
    cursor: int
    gap: Gap | None = None


class Subscription:
    """Raises `FrameError` where the frame asks for what there is not."""

    def __init__(self, hub: Hub, connection: Connection, frame: Subscribe, *, at_interval: float) -> None:
        if frame.as_ == "display":
            raise FrameError("unsupported", "subscribe: display events are not offered by this daemon")
        start = _start(hub, frame.after)
        self.audience = Audience(frame.filter, frame.partials)
        self.cursor = start.cursor
        self.behind = True
        self.journal_reads = 0
        self.journal_events = 0
        self._hub = hub
        self._connection = connection
        self._end = None if frame.follow else hub.latest
        self._gone = hub.journal.expired
        """Up to here retention may have deleted events, and the subscriber knows."""
        self._greeted = False
        self._at_interval = at_interval
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        journal = hub.journal
        connection.send(Subscribed(after=start.cursor, journal=journal.id, oldest=journal.oldest, latest=hub.latest))
        if start.gap is not None:
            connection.send(start.gap)
        hub.add(self)
        self._timer = self._loop.call_later(at_interval, self._tick)
        hub.tasks.start_soon(self._catch_up)

    @property
    def position(self) -> int:
        return self.cursor if self.behind else self._hub.latest

    def statistics(self) -> dict[str, object]:
        return {
            "after": self.position,
            "behind": self.behind,
            "filter": msgspec.to_builtins(self.audience.filter),
            "partials": self.audience.partials,
            "bytesWritten": self._connection.bytes_written,
            "journalReads": self.journal_reads,
            "journalEvents": self.journal_events,
        }

    def deliver(self, pieces: list[Piece], before: int) -> None:
        """What is new since `before`, for a live subscriber."""
        self._written_at = self._loop.time()
        for piece in pieces:
            if self._connection.writable:
                self._connection.write(piece.data)
            elif piece.upto > before:
                self.cursor = before
                self.behind = True
                self._hub.leave(self)
                self._hub.tasks.start_soon(self._catch_up)
                return
            before = piece.upto  # not writable, and nothing but partials: they are dropped

    def close(self) -> None:
        self._timer.cancel()
        self._hub.remove(self)

    async def _catch_up(self) -> None:
        try:
            while not self._connection.closed:
                await self._connection.drain()
                if self._end is None and self._join():
                    return
                if self._end is not None and self.cursor >= self._end:
                    self._connection.send(Live(seq=self.cursor))
                    self._connection.close()
                    return
                await self._read()
        except JournalError as error:
            _log.error("cannot read the journal", error=str(error))
            self._connection.send(ErrorFrame(code="journal", message=str(error)))
            self._connection.close()

    def _join(self) -> bool:
        """Go live, if what is missing is still in memory and the client takes it."""
        lines = self._hub.recent.after(self.cursor)
        if lines is None:
            return False
        for piece in cut(lines, Audience(self.audience.filter, partials=False), self.cursor):
            if not self._connection.writable:
                return False
            self._write(piece.data)
            self.cursor = piece.upto
        if not self._greeted:
            self._greeted = True
            self._connection.send(Live(seq=self._hub.latest))
        self.behind = False
        self._hub.join(self)
        return True

    async def _read(self) -> None:
        """One bounded read of the journal, passed on."""
        journal = self._hub.journal
        up_to = self._hub.latest if self._end is None else self._end
        events, looked = await journal.read(self.cursor, self.audience.filter, up_to=up_to)
        self.journal_reads += 1
        self.journal_events += len(events)
        if self.cursor < journal.expired and self._gone < journal.expired:
            # Retention has overtaken the subscriber: what it deleted may have been wanted.
            first = max(self.cursor, self._gone) + 1
            self._gone = journal.expired
            self._connection.send(Gap(from_=first, to=self._gone, reason="retention"))
        self.cursor = looked
        self._write(b"".join([with_seq(event.seq, event.body) + b"\n" for event in events]))

    def _write(self, data: bytes) -> None:
        if data:
            self._written_at = self._loop.time()
            self._connection.write(data)

    def _tick(self) -> None:
        """Tell an idle subscriber how far it is. A client that has closed its half is found out by writing to it."""
        idle = self._loop.time() - self._written_at
        if idle >= self._at_interval:
            if self._connection.writable and (self.audience.filter != Filter() or self._connection.ended):
                self._connection.send(At(seq=self.position))
            self._written_at = self._loop.time()
            idle = 0
        self._timer = self._loop.call_later(self._at_interval - idle, self._tick)


def _start(hub: Hub, after: str | int) -> Start:
    """Where a subscription begins, and what is told to be missing there."""
    journal = hub.journal
    if after == "start":
        return Start(journal.oldest - 1)
    if after == "now":
        return Start(hub.latest)
    name, _, number = after.rpartition(":") if isinstance(after, str) else (journal.id, "", after)
    if isinstance(number, str):
        if not name or not (number.isascii() and number.isdigit()):
            raise FrameError("bad-frame", 'subscribe: `after` is "start", "now", a seq or "<journal>:<seq>"')
        number = int(number)
    if name != journal.id or number > hub.latest:
        oldest = journal.oldest
        return Start(oldest - 1, Gap(from_=1, to=oldest - 1, reason="reset"))
    if number < journal.expired:
        return Start(number, Gap(from_=number + 1, to=journal.expired, reason="retention"))
    return Start(number)
