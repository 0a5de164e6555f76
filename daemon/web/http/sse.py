"""Server-sent events: a subscription in the form that a browser's `EventSource` reads.

An event is a message with its `seq` as `id`, so a browser that reconnects sends its cursor by itself. A control frame
is a message with the frame's name as `event`; `live` and `at` have an `id`, too, because they are cursors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache

import anyio
from starlette.types import Receive, Scope, Send

from tooltap.daemon.web.http.feed import Arrived, Feed
from tooltap.daemon.web.http.services import Services
from tooltap.protocol.frames import At, ErrorFrame, Live, Subscribe, decode_daemon_frame

HEARTBEAT = 15.0
"""Seconds after which an idle feed is sent a comment."""
REGULAR_PERIOD = 1.0
"""Seconds."""
RECONNECT_MS = 1_000
"""How long a browser waits before it reconnects."""
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"vary", b"accept"),
    (b"x-accel-buffering", b"no"),  # else nginx buffers events
]
COMMENT = b":\n\n"


class EventStream:
    """An endless response. `translate` converts what arrives to messages; `regular`, called every second, returns
    other messages that are due. Both must do slow work in a thread."""

    def __init__(
        self,
        services: Services,
        frame: Subscribe,
        translate: Callable[[Arrived], Awaitable[bytes]],
        regular: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        self._feeds = services.feeds
        self._heartbeat = HEARTBEAT
        self._period = self._heartbeat if regular is None else min(self._heartbeat, REGULAR_PERIOD)
        self._regular = regular
        self._frame = frame
        self._translate = translate

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
        sent_at = anyio.current_time()
        while True:
            arrived = None
            with anyio.move_on_after(self._period):
                arrived = await feed.take()
            if arrived is not None and not arrived.data:
                return
            body = b"" if arrived is None else await self._translate(arrived)
            body += b"" if self._regular is None else await self._regular()
            if body or anyio.current_time() - sent_at >= self._heartbeat:
                await _send(send, body or COMMENT)
                sent_at = anyio.current_time()


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


def _name(frame: object) -> bytes:
    return str(type(frame).__struct_config__.tag).encode()  # type: ignore[attr-defined]


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _until_left(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
