"""Reading a journal on JetStream backwards, newest events first.

JetStream reads forwards only. So a window of messages is read from its beginning, and of what it holds the newest
events are kept; where a window holds nothing that is wanted, the next one is twice as long.
"""

from __future__ import annotations

from collections import deque

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.journal.nats.link import Link
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, decode_group, events_of
from tooltap.daemon.journal.nats.rows import matches
from tooltap.protocol.filters import Filter

__all__ = ["only_stream", "read_back"]

WINDOW, LONGEST_WINDOW = 32, 65_536
"""Messages."""


def only_stream(wanted: Filter | None) -> str | None:
    """The one stream whose events are wanted: its messages have a subject of their own."""
    return wanted.stream[0] if wanted is not None and wanted.stream and len(wanted.stream) == 1 else None


async def read_back(
    link: Link, log: Log, before: int, oldest: int, wanted: Filter | None, limit: int, max_bytes: int
) -> tuple[list[StoredEvent], int]:
    """As `Journal.read_back`, down to `oldest`. Raises `JournalError`."""
    wanted = None if wanted == Filter() else wanted
    window = WINDOW
    while before > oldest:
        last = (before - 1) // EVENTS_A_MESSAGE
        first = max(last - window + 1, oldest // EVENTS_A_MESSAGE)
        newest = _Newest(limit, max_bytes)
        position = first
        while found := await link.insist(log.after, max(position, 1), last, only_stream(wanted), 2 * max_bytes):
            for message in found:
                for stored in events_of(message.seq, decode_group(message.data).events):
                    if stored.seq < before and matches(wanted, stored):
                        newest.add(stored)
            position = found[-1].seq + 1
        if newest.events:
            looked = newest.events[0].seq if newest.dropped else max(first * EVENTS_A_MESSAGE, oldest)
            return list(newest.events)[::-1], looked
        before = first * EVENTS_A_MESSAGE
        window = min(2 * window, LONGEST_WINDOW)
    return [], before


class _Newest:
    """The last events that were added, within the bounds."""

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
