"""Publishers' connections: bytes from the socket into a stream's session, its frames back.

Reading goes on only as fast as the session takes what was read: that is the publisher's backpressure.
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.server.connection import Connection
from tooltap.protocol.frames import Ack, DaemonFrame, ErrorFrame, FrameError, Ingest, Suspended

__all__ = ["serve_publisher"]

RECEIVE_BYTES = 65_536
"""Taken in at once: parsing it keeps the other connections waiting."""


async def serve_publisher(streams: Streams, connection: Connection, request: Ingest) -> None:
    """Until the publisher leaves, or its stream is taken away. Raises `FrameError` and `JournalError`."""
    answers = _Answers(connection)
    try:
        session = await streams.open(request, answers.send)
    except FrameError as error:
        error.fatal = True  # the stream's lines follow, and they are no frames
        raise
    try:
        while data := await connection.receive(RECEIVE_BYTES):
            await session.feed(data)
            await checkpoint()  # others' turn, even if there is more to take
    finally:
        await session.finish()


class _Answers:
    """A publisher need not read its acks: what it does not take is not kept, save the last, which says it all."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._late: Ack | None = None
        connection.when_writable = self._catch_up

    def send(self, frame: DaemonFrame) -> None:
        if isinstance(frame, Ack) and not self._connection.writable:
            self._late = frame
            return
        self._late = None
        self._connection.send(frame)
        if isinstance(frame, ErrorFrame | Suspended):  # the session's last word
            self._connection.end_input()

    def _catch_up(self) -> None:
        if self._late is not None:
            self.send(self._late)
