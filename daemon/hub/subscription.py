"""One subscriber: replay from the journal, then live, and back to the journal when its client does not keep up.

A subscription is in one of two states:

- Behind: it has a task, and is in no group of the hub. The task waits until the client has taken what it was sent,
  then sends the next part: from the journal until the cursor is within the batches that the hub retains, then from
  those.
- Live: it is a member of a group and has no task. The hub calls `deliver`.

`cursor` is the `seq` up to which the client has been sent everything it selected. Each event reaches the client once
and in order, because of how the states change:

- Behind to live: `_follow` takes the retained batches and joins the group without awaiting, so that no batch is
  published in between.
- Live to behind: `deliver` writes whole chunks. When the connection is full before a chunk, the cursor is the end of
  the chunk before it, and the task starts from there.
- The task reads the journal up to `hub.latest` only: later events are published to the groups soon.

Partials are not journaled. They reach live subscribers, and are dropped when the connection is full.

A journal that is elsewhere may be replaced by another one: `restart`.

Retention may delete events that a subscription has not reached. After every read, `journal.last_expired` is compared
with the cursor, and a `gap` precedes the events that were read. The order matters: retention may run during the read.

Damaged events are left out by the journal, which then has their numbers in `corrupt`. A `gap` stands in their place.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from typing import Protocol

import msgspec

from tooltap.daemon.hub.hub import Chunk, Hub, Selection, display_of
from tooltap.daemon.journal.interface import JournalError, StoredEvent
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import event_lines
from tooltap.protocol.frames import (
    At,
    DaemonFrame,
    ErrorCode,
    ErrorFrame,
    Form,
    FrameError,
    Gap,
    Live,
    Subscribe,
    Subscribed,
)

_log = get_logger("subscription")

_CURSOR = re.compile(r"(?P<journal>.+):(?P<seq>[0-9]{1,19})")


class Subscriber(Protocol):
    """What a subscription needs of the connection it writes to."""

    writable: bool
    closed: bool
    ended: bool
    bytes_written: int

    def deliver(self, chunk: Chunk) -> None: ...
    def send(self, frame: DaemonFrame) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


AT_INTERVAL = 5.0
"""Seconds after which an idle filtered subscription gets an `at` frame."""
SUBSCRIBER_BYTES = 65_536
"""Bytes written to a client that it has not read. Beyond this, a subscriber is served at its own pace."""


class Subscription:
    """The subscription of one client. Raises `FrameError` for a cursor that cannot be read."""

    def __init__(
        self, hub: Hub, connection: Subscriber, frame: Subscribe, *, at_interval: float, read_bytes: int
    ) -> None:
        self.cursor, self._first_gap = _begin(hub, frame.after)
        self.selection = Selection(frame.filter, frame.partials, frame.as_)
        self.behind = True
        self.journal_reads = 0
        self.journal_events = 0
        self._hub = hub
        self._connection = connection
        self._end = None if frame.follow else hub.latest
        self._gone = hub.journal.last_expired
        """Up to here retention may have deleted events, and the client knows."""
        self._greeted = False
        self._restarts = 0
        self._read_bytes = read_bytes
        self._at_interval = at_interval
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._timer = self._loop.call_later(at_interval, self._tick)

    def start(self) -> None:
        """Confirm the subscription and begin the replay."""
        self._confirm(self._first_gap)
        self._hub.add(self)
        self.fall_behind(self.cursor)

    def restart(self) -> None:
        """Begin with the oldest event of the journal, which was replaced. Tell the client, as at the start."""
        journal = self._hub.journal
        self.cursor = journal.oldest - 1
        self._gone = journal.last_expired
        self._end = None if self._end is None else self._hub.latest
        self._greeted = False
        self._restarts += 1
        self._confirm(Gap(from_=1, to=self.cursor, reason="reset"))
        if not self.behind:
            self.fall_behind(self.cursor)

    def interrupt(self) -> None:
        """Continue from the journal, if the subscription is live."""
        if not self.behind:
            self.fall_behind(self._hub.latest)

    def _confirm(self, gap: Gap | None) -> None:
        hub, journal = self._hub, self._hub.journal
        self._connection.send(
            Subscribed(after=self.cursor, journal=journal.id, oldest=journal.oldest, latest=hub.latest)
        )
        if gap is not None:
            self._connection.send(gap)

    @property
    def position(self) -> int:
        return self.cursor if self.behind else self._hub.latest

    def statistics(self) -> dict[str, object]:
        return {
            "after": self.position,
            "behind": self.behind,
            "filter": msgspec.to_builtins(self.selection.filter),
            "partials": self.selection.partials,
            "as": self.selection.as_,
            "bytesWritten": self._connection.bytes_written,
            "journalReads": self.journal_reads,
            "journalEvents": self.journal_events,
        }

    def deliver(self, chunks: list[Chunk], before: int) -> None:
        """Write what is new after `before`, or fall behind."""
        self._written_at = self._loop.time()
        for chunk in chunks:
            if self._connection.writable:
                self._connection.deliver(chunk)
            elif chunk.upto > before:
                self.fall_behind(before)
                return
            before = chunk.upto  # a full connection drops a chunk that has nothing but partials

    def close(self) -> None:
        self._timer.cancel()
        self._hub.remove(self)

    def fail(self, error: Exception) -> None:
        """End with an internal error; the client may subscribe again."""
        faults.note("a subscription failed", place_of(error), error)
        self._fail("internal", "the subscription failed; the daemon's log says why")

    def fall_behind(self, cursor: int) -> None:
        """Send what is after `cursor` from the journal."""
        self.behind = True
        self.cursor = cursor
        self._hub.leave(self)
        self._hub.tasks.start_soon(self._catch_up)

    async def _catch_up(self) -> None:
        try:
            while self.behind and not self._connection.closed:
                await self._connection.drain()
                if self._end is None:
                    await self._follow()
                elif self.cursor < self._end:
                    await self._read(self._end)
                else:
                    self._connection.send(Live(seq=self.cursor))
                    self._connection.close()
                    return
        except JournalError as error:
            _log.error("cannot read the journal", error=str(error))
            self._fail("journal", str(error))
        except Exception as error:
            self.fail(error)

    def _fail(self, code: ErrorCode, message: str) -> None:
        """The end of the connection says it as well, if the frame cannot."""
        try:
            self._connection.send(ErrorFrame(code=code, message=message))
        except Exception as error:
            faults.note("could not tell a subscriber why its subscription ended", place_of(error), error)
        self._connection.close()

    async def _follow(self) -> None:
        """Take one step towards `hub.latest`; become live when it is reached."""
        hub, connection = self._hub, self._connection
        batches = hub.recent(self.cursor)
        if batches is None:
            await self._read(hub.latest)
            return
        # Nothing below awaits, so nothing is published before this returns.
        for batch in batches:
            for chunk in hub.chunks_after(self.cursor, batch, self.selection):
                if not connection.writable:
                    return
                self._write(chunk)
                self.cursor = chunk.upto
            self.cursor = batch.upto
        if not connection.writable:
            return
        self.behind = False
        hub.join(self)
        if not self._greeted:
            self._greeted = True
            connection.send(Live(seq=hub.latest))

    async def _read(self, up_to: int) -> None:
        """Read the next part of the journal and send it."""
        journal = self._hub.journal
        wanted = self.selection.filter
        restarts = self._restarts
        events, searched = await journal.read(self.cursor, wanted, up_to=up_to, max_bytes=self._read_bytes)
        self.journal_reads += 1
        self.journal_events += len(events)
        if self._restarts != restarts:
            return  # what was read is of a journal that is gone
        if max(self.cursor, self._gone) < journal.last_expired:
            # Retention has overtaken the subscriber, and may have deleted events it selected.
            first = max(self.cursor, self._gone) + 1
            self._gone = journal.last_expired
            self._connection.send(Gap(from_=first, to=self._gone, reason="retention"))
        damaged = journal.corrupt.within(self.cursor + 1, searched) if journal.corrupt else ()
        self.cursor = searched
        for first, last in damaged:
            before = bisect_left(events, first, key=lambda event: event.seq)
            self._send_events(events[:before])
            events = events[before:]
            self._connection.send(Gap(from_=first, to=last, reason="corrupt"))
        self._send_events(events)

    def _send_events(self, events: list[StoredEvent]) -> None:
        if lines := _lines(events, self.selection.as_):
            self._write(Chunk(lines, self.cursor, events, [event.seq for event in events]))

    def _write(self, chunk: Chunk) -> None:
        self._written_at = self._loop.time()
        self._connection.deliver(chunk)

    def _tick(self) -> None:
        """Send an idle subscriber its position. Writing also detects a client that is gone after closing its half."""
        idle = self._loop.time() - self._written_at
        if idle >= self._at_interval:
            if self._connection.writable and (self.selection.is_selective or self._connection.ended):
                self._connection.send(At(seq=self.position))
            self._written_at = self._loop.time()
            idle = 0
        self._timer = self._loop.call_later(self._at_interval - idle, self._tick)


def _lines(events: list[StoredEvent], as_: Form) -> bytes:
    if as_ == "display":
        shown = [(event.seq, display_of(event.body)) for event in events]
        return event_lines([(seq, body) for seq, body in shown if body is not None])
    return event_lines(events)


def _begin(hub: Hub, after: str | int) -> tuple[int, Gap | None]:
    """The cursor a subscription begins with, and the gap before it. Raises `FrameError`."""
    journal = hub.journal
    if after == "start":
        return journal.oldest - 1, None
    if after == "now":
        return hub.latest, None
    name, seq = journal.id, after
    if isinstance(seq, str):
        cursor = _CURSOR.fullmatch(seq)
        if cursor is None:
            raise FrameError("bad-frame", 'subscribe: `after` is "start", "now", a seq or "<journal>:<seq>"')
        name, seq = cursor["journal"], int(cursor["seq"])
    if name != journal.id or seq > journal.latest:
        first = journal.oldest - 1
        return first, Gap(from_=1, to=first, reason="reset")
    if seq < journal.last_expired:
        return seq, Gap(from_=seq + 1, to=journal.last_expired, reason="retention")
    return seq, None
