"""Reading the events of a journal on JetStream: forwards, and backwards from the newest.

JetStream reads forwards only. To read backwards, a window of messages is read from its beginning, and the newest events
in it are retained. A window without a matching event is followed by one twice as long.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, end_of, events_of
from tooltap.daemon.journal.nats.rows import matches
from tooltap.protocol.filters import Filter

__all__ = ["read", "read_back"]

WINDOW, LONGEST_WINDOW = 32, 65_536
"""Messages."""


def _only_stream(wanted: Filter) -> str | None:
    """The stream, if events of one stream are wanted: its messages have a subject of their own."""
    return wanted.stream[0] if wanted.stream and len(wanted.stream) == 1 else None


class Read(NamedTuple):
    events: list[StoredEvent]
    searched: int
    """The `seq` up to which the journal was searched."""
    missing: list[tuple[int, int]]
    """Messages that are not there, from first to last. Where only one stream was read: where there must be some."""


async def read(log: Log, after: int, end: int, wanted: Filter, max_bytes: int) -> Read:
    """As `Journal.read`, up to `end`, in whole messages: the last one may exceed `max_bytes`. Raises `JournalError`."""
    first, last = max((after + 1) // EVENTS_A_MESSAGE, 1), end // EVENTS_A_MESSAGE
    stream = _only_stream(wanted)
    events: list[StoredEvent] = []
    missing: list[tuple[int, int]] = []
    while after < end and not events:
        found = await log.read(first, last, stream, 2 * max_bytes)
        if found is None:
            return Read([], end, [])
        if not found:
            if stream is None:
                missing.append((first, last))
            return Read(events, end, missing)
        size = 0
        for message in found:
            if stream is None and message.seq > first:
                missing.append((first, message.seq - 1))
            elif message.before is not None and message.before >= first:  # the stream had more before it
                missing.append((first, message.before))
            part = log.part(message)
            for stored in () if part is None else events_of(message.seq, part.events):
                if after < stored.seq <= end and matches(wanted, stored):
                    events.append(stored)
                    size += len(stored.body)
            first = message.seq + 1
            if size >= max_bytes:
                break
        after = min(end_of(first - 1), end)
    return Read(events, after, missing)


async def read_back(
    log: Log, before: int, oldest: int, wanted: Filter, limit: int, max_bytes: int
) -> tuple[list[StoredEvent], int]:
    """As `Journal.read_back`, down to `oldest`. Raises `JournalError`."""
    window = WINDOW
    while before > oldest:
        last = (before - 1) // EVENTS_A_MESSAGE
        first = max(last - window + 1, oldest // EVENTS_A_MESSAGE)
        newest = _Newest(limit, max_bytes)
        position = first
        while found := await log.read(max(position, 1), last, _only_stream(wanted), 2 * max_bytes):
            for message in found:
                part = log.part(message)
                for stored in () if part is None else events_of(message.seq, part.events):
                    if stored.seq < before and matches(wanted, stored):
                        newest.add(stored)
            position = found[-1].seq + 1
        if newest.events:
            searched = newest.events[0].seq if newest.dropped else max(first * EVENTS_A_MESSAGE, oldest)
            return list(newest.events)[::-1], searched
        before = first * EVENTS_A_MESSAGE
        window = min(2 * window, LONGEST_WINDOW)
    return [], before


class _Newest:
    """The last events added, within the bounds."""

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.events: deque[StoredEvent] = deque()
        self.dropped = False
        self._limit = limit
        self._max_bytes = max_bytes
        self._size = 0

    def add(self, event: StoredEvent) -> None:
        self.events.append(event)
        self._size += len(event.body)
        while len(self.events) > self._limit or self._size - len(self.events[0].body) >= self._max_bytes:
            self._size -= len(self.events.popleft().body)
            self.dropped = True
