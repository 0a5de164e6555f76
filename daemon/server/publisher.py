"""Publishers' connections: bytes from the socket into an ingest connection, its frames back.

The socket is read only as fast as `feed` returns: that is the publisher's backpressure.
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.server.connection import Connection
from tooltap.daemon.system.loop.watchdog import name_task
from tooltap.protocol.frames import Ack, DaemonFrame, ErrorFrame, FrameError, Ingest, Suspended, ToAgent

RECEIVE_BYTES = 65_536
"""Bytes parsed at once, while all other connections wait."""


async def serve_publisher(streams: Streams, connection: Connection, request: Ingest) -> None:
    """Serve until the publisher leaves or loses its stream. Raises `FrameError` and `JournalError`."""
    name_task(f"stream {request.stream or ''}")
    outgoing = _Outgoing(connection)
    try:
        ingest = await streams.open(request, outgoing.send)
    except FrameError as error:
        error.fatal = True  # the client sends lines next, which cannot be read as frames
        raise
    try:
        while data := await connection.receive(RECEIVE_BYTES):
            await ingest.feed(data)
            await checkpoint()  # give other tasks a turn, even if more bytes are waiting
    finally:
        await ingest.finish()


class _Outgoing:
    """A publisher need not read its acks. Only the last that it has not taken is retained: it implies the others."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._late: Ack | None = None
        connection.when_writable = self._catch_up

    def send(self, frame: DaemonFrame) -> None:
        if isinstance(frame, Ack) and not self._connection.writable:
            self._late = frame
            return
        if not isinstance(frame, ToAgent):  # all other frames imply what is acknowledged
            self._late = None
        self._connection.send(frame)
        if isinstance(frame, ErrorFrame | Suspended):  # the last frame
            self._connection.end_input()

    def _catch_up(self) -> None:
        if self._late is not None:
            self.send(self._late)
