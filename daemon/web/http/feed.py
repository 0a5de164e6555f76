"""Subscriptions without a socket: the hub writes to a feed, and a response to a browser reads it.

The chunks that wait in a feed are bounded like a socket's buffer. When it is full the subscription falls behind, and
reads the journal at the reader's pace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio

from tooltap.daemon.hub.hub import Chunk, Hub
from tooltap.daemon.hub.subscription import AT_INTERVAL, SUBSCRIBER_BYTES, Subscription
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.web.http.errors import WebError, from_frame_error
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.frames import DaemonFrame, FrameError, Subscribe, encode_frame

RETRY = {"Retry-After": "1"}
FEEDS = 256
"""Connections that receive live events; one more is refused."""


class Arrived(NamedTuple):
    """A chunk of events, or a control frame."""

    data: bytes
    """Whole lines; empty at the end of the feed."""
    events: Sequence[Produced | StoredEvent] = ()
    seqs: Sequence[int | None] = ()
    """Of each event; None for a partial."""
    frame: DaemonFrame | None = None


class Feed:
    """Stands in for the connection of a `Subscription`."""

    ended = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[Arrived] = deque()
        self._size = 0
        self._arrived = anyio.Event()
        self._resumed = anyio.Event()
        self.writable = True
        self.closed = False
        """Nothing more can be written; chunks that wait can still be read."""
        self.bytes_written = 0

    # -- for the subscription -----------------------------------------------------------------------------------

    def deliver(self, chunk: Chunk) -> None:
        self._put(Arrived(chunk.data, chunk.events, chunk.seqs))

    def send(self, frame: DaemonFrame) -> None:
        self._put(Arrived(encode_frame(frame), frame=frame))

    def _put(self, arrived: Arrived) -> None:
        if self.closed:
            return
        self._chunks.append(arrived)
        self._size += len(arrived.data)
        self.bytes_written += len(arrived.data)
        if self._size >= self._limit and self.writable:
            self.writable = False
            self._resumed = anyio.Event()
        self._arrived.set()

    async def drain(self) -> None:
        """Wait until nearly all chunks have been taken, or the feed is closed."""
        while not self.writable and not self.closed:
            await self._resumed.wait()

    def close(self) -> None:
        self.closed = True
        self._arrived.set()
        self._resumed.set()

    # -- for the reader -----------------------------------------------------------------------------------------

    async def take(self) -> Arrived:
        """Wait for what comes next and return it."""
        while not self._chunks and not self.closed:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        if not self._chunks:
            return Arrived(b"")
        chunk = self._chunks.popleft()
        self._size -= len(chunk.data)
        if not self.writable and self._size <= self._limit // 4:
            self.writable = True
            self._resumed.set()
        return chunk


class Feeds:
    """All open feeds. Their number is limited; they are closed together when the daemon stops."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._open: set[Feed] = set()
        self._stopped = False

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def open(self, frame: Subscribe) -> AsyncIterator[Feed]:
        """Open a feed for a subscription. Raises `WebError` and `JournalError`."""
        if self._stopped:
            raise WebError(503, "stopping", "the daemon is stopping", RETRY)
        if len(self._open) >= FEEDS:
            raise WebError(503, "too-many-feeds", f"the daemon serves {FEEDS} feeds at a time", RETRY)
        feed = Feed(SUBSCRIBER_BYTES)
        self._open.add(feed)
        subscription = None
        try:
            await self._hub.listen()
            subscription = Subscription(
                self._hub,
                feed,
                frame,
                at_interval=AT_INTERVAL,
                read_bytes=SUBSCRIBER_BYTES,
            )
            subscription.start()
            yield feed
        except FrameError as error:
            raise from_frame_error(error) from None
        finally:
            self._open.discard(feed)
            feed.close()
            if subscription is not None:
                subscription.close()

    def stop(self) -> None:
        """Close all feeds and open no more."""
        self._stopped = True
        for feed in self._open:
            feed.close()
