"""Live events over HTTP. The hub writes a subscription to a feed, and a response reads it, as server-sent events.

The chunks that wait in a feed are bounded like a socket's buffer. When it is full the subscription falls behind, and
reads the journal at the reader's pace.

`EventStream` is the form that a browser's `EventSource` reads. An event is a message with its `seq` as `id`, so a
browser that reconnects sends its cursor by itself. A control frame is a message with the frame's name as `event`;
`live` and `at` have an `id`, too, because they are cursors. `heartbeat` comes regularly, whatever else does: a reader
that misses it knows that the connection is dead, of which TCP says nothing for minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from math import inf
from typing import NamedTuple

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from tooltap.daemon.hub import AT_INTERVAL, SUBSCRIBER_BYTES, Chunk, Hub
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.web.http.requests import WebError, from_frame_error
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import (
    At,
    DaemonFrame,
    ErrorFrame,
    FrameError,
    Live,
    Subscribe,
    decode_daemon_frame,
    encode_frame,
)

RETRY = {"Retry-After": "1"}
FEEDS = 256
"""Connections that receive live events; one more is refused."""


class Arrived(NamedTuple):
    """A chunk of events, or a control frame."""

    data: bytes
    """Whole lines; empty at the end of the feed."""
    events: Sequence[Produced | StoredEvent] = ()
    seqs: Sequence[int | None] = ()
    """`seq` of each event; None for a partial."""
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
            subscription = await self._hub.subscription(
                feed, frame, at_interval=AT_INTERVAL, read_bytes=SUBSCRIBER_BYTES
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


HEARTBEAT = 15.0
"""Seconds between two heartbeats."""
REGULAR_PERIOD = 1.0
"""Seconds between two calls of `regular`."""
NO_EVENTS = Filter(session=("",))
"""The filter of a response that only says what is regularly looked for: a subscription needs one."""
RECONNECT_MS = 1_000
"""Milliseconds that a browser waits before it reconnects."""
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"vary", b"accept"),
    (b"x-accel-buffering", b"no"),  # else nginx buffers events
]


class EventStream:
    """An endless response, unless `is_over` says that it has ended. `translate` converts what arrives to messages;
    `regular`, called every second, returns other messages that are due. Both must do slow work in a thread."""

    def __init__(
        self,
        feeds: Feeds,
        frame: Subscribe,
        translate: Callable[[Arrived], Awaitable[bytes]],
        regular: Callable[[], Awaitable[bytes]] | None = None,
        heartbeat: Callable[[], bytes] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._feeds = feeds
        self._period = inf if regular is None else REGULAR_PERIOD
        self._regular = regular
        self._frame = frame
        self._translate = translate
        self._heartbeat = heartbeat or _heartbeat
        self._is_over = is_over

    @classmethod
    def of_state(cls, feeds: Feeds, regular: Callable[[], Awaitable[bytes]]) -> EventStream:
        """Return a response of what `regular` returns alone."""
        return cls(feeds, Subscribe(after="now", filter=NO_EVENTS), _nothing, regular)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `WebError` and `JournalError` before anything is sent."""
        async with self._feeds.open(self._frame) as feed:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await _send(send, b"retry: %d\n\n" % RECONNECT_MS)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_left, receive, tasks.cancel_scope)
                if scope["method"] != "HEAD":
                    await self._serve(feed, send)
                tasks.cancel_scope.cancel()
            # Also for a client that has left: if its login has ended, it is still there.
            await _send(send, b"", more=False)

    async def _serve(self, feed: Feed, send: Send) -> None:
        due = anyio.current_time() + HEARTBEAT
        while True:
            arrived = None
            with anyio.move_on_after(min(self._period, max(due - anyio.current_time(), 0.0))):
                arrived = await feed.take()
            if arrived is not None and not arrived.data:
                return
            body = b"" if arrived is None else await self._translate(arrived)
            body += b"" if self._regular is None else await self._regular()
            if anyio.current_time() >= due:
                body += self._heartbeat()
                due = anyio.current_time() + HEARTBEAT
            if body:
                await _send(send, body)
            if self._is_over():
                return


async def _nothing(_: Arrived) -> bytes:
    return b""


def _heartbeat() -> bytes:
    """Make a heartbeat, with the seconds until the next one."""
    return message(b"heartbeat", f'{{"op":"heartbeat","period":{HEARTBEAT}}}')


def message(name: bytes, data: str, seq: int | None = None) -> bytes:
    """Make a message of any text. `seq`: its `id`."""
    cursor = b"" if seq is None else b"id: %d\n" % seq
    lines = b"".join(b"data: %b\n" % line for line in data.replace("\r", "&#13;").encode().split(b"\n"))
    return b"event: %b\n%b%b\n" % (name, cursor, lines)


async def messages(arrived: Arrived) -> bytes:
    """Convert lines to messages."""
    return _messages(arrived.data)


@lru_cache(maxsize=4)
def _messages(chunk: bytes) -> bytes:
    """Convert a chunk once for all readers of it."""
    return b"".join([_message(line) for line in chunk.splitlines()])


def _message(line: bytes) -> bytes:
    if line.startswith(b'{"seq":'):
        return b"id: %b\ndata: %b\n\n" % (line[7 : line.index(b",")], line)
    if not line.startswith(b'{"op":'):  # a partial
        return b"data: %b\n\n" % line
    frame = decode_daemon_frame(line)
    if isinstance(frame, Live | At):
        return b"event: %b\nid: %d\ndata: %b\n\n" % (_name(frame), frame.seq, line)
    if isinstance(frame, ErrorFrame):  # in a browser an `error` event means that the connection ended
        return b"event: problem\ndata: %b\n\n" % line
    return b"event: %b\ndata: %b\n\n" % (_name(frame), line)


async def ag_ui_messages(arrived: Arrived) -> bytes:
    """Convert lines of AG-UI events to messages. AG-UI's client reads all data as events, so a frame has none: a cursor
    becomes the `id` of the message before it, or of one without data."""
    found: list[bytes] = []
    for line in arrived.data.splitlines():
        if not line.startswith(b'{"op":'):
            found.append(b"data: %b\n\n" % line)
            continue
        frame = decode_daemon_frame(line)
        if isinstance(frame, Live | At):
            before = found.pop() if found else b"\n"
            found.append(b"id: %d\n%b" % (frame.seq, before))
        elif isinstance(frame, ErrorFrame):
            error = {"type": "RUN_ERROR", "message": frame.message, "code": frame.code}
            found.append(b"data: %b\n\n" % msgspec.json.encode(error))
    return b"".join(found)


class AgUiRun:
    """Converts the lines of AG-UI events to messages until the end of the run that AG-UI's client has asked for. What
    the user says is left out, because the client has it."""

    def __init__(self) -> None:
        self.is_over = False
        self._has_content = False
        """Whether the run has more than notices, which may have a run of their own."""
        self._of_user: set[str] = set()

    async def messages(self, arrived: Arrived) -> bytes:
        kept = [line for line in arrived.data.splitlines() if self._keeps(line)]
        return await ag_ui_messages(Arrived(b"\n".join(kept)))

    def _keeps(self, line: bytes) -> bool:
        if self.is_over or line.startswith(b'{"op":'):
            return not self.is_over
        event = msgspec.json.decode(line)
        kind, message_id = event["type"], event.get("messageId", "")
        if kind == "TEXT_MESSAGE_START" and event["role"] == "user":
            self._of_user.add(message_id)
        if kind.startswith("TEXT_MESSAGE_") and message_id in self._of_user:
            if kind == "TEXT_MESSAGE_END":
                self._of_user.discard(message_id)
            return False
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            is_asking = event.get("outcome", {}).get("type") == "interrupt"
            self.is_over = self._has_content or is_asking or kind == "RUN_ERROR"
            self._has_content = False
        elif kind not in ("RUN_STARTED", "CUSTOM"):
            self._has_content = True
        return True


def ag_ui_heartbeat() -> bytes:
    """Make a heartbeat that is no event: a comment."""
    return b": heartbeat\n\n"


def _name(frame: object) -> bytes:
    return str(type(frame).__struct_config__.tag).encode()  # type: ignore[attr-defined]


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _until_left(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
