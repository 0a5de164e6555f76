"""One client's connection: bytes in and bytes out, each with its own backpressure.

Reading from the socket pauses while received bytes are not consumed. `writable` is False while the client does not read
what was written. `write` never waits: code that writes much checks `writable` first, or awaits `drain`.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from collections.abc import Callable
from typing import cast

import anyio

from tooltap.daemon.hub import Chunk
from tooltap.protocol.frames import DaemonFrame, FrameError, encode_frame


class Connection(asyncio.Protocol):
    def __init__(self, accepted: Callable[[Connection], None], *, read_limit: int, write_limit: int) -> None:
        self._accepted = accepted
        self._read_limit = read_limit
        self._write_limit = write_limit
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._arrived = anyio.Event()
        self._resumed = anyio.Event()
        self._gone = anyio.Event()
        self.writable = True
        self.closed = False
        """True if nothing more can be written."""
        self.ended = False
        """True if the client sends nothing more; it may still read."""
        self.bytes_written = 0
        self.when_writable: Callable[[], None] = lambda: None
        """Called when `writable` becomes True again."""

    # -- called by asyncio --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._write_limit)
        self._accepted(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= self._read_limit:
            self._transport.pause_reading()
        self._arrived.set()

    def eof_received(self) -> bool:
        self.ended = True
        self._arrived.set()
        # A client that still reads keeps this half open: `socat` closes its own half as soon as its input ends.
        return not _hung_up(self.socket)

    def pause_writing(self) -> None:
        self.writable = False
        self._resumed = anyio.Event()

    def resume_writing(self) -> None:
        self.writable = True
        self._resumed.set()
        self.when_writable()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = self.ended = True
        self._arrived.set()
        self._resumed.set()
        self._gone.set()

    # -- for the daemon -----------------------------------------------------------------------------------------

    @property
    def socket(self) -> socket.socket:
        return cast(socket.socket, self._transport.get_extra_info("socket"))

    async def read_line(self, limit: int) -> bytes | None:
        """The next line without its newline, None at the end. Raises `FrameError` for one longer than `limit`."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and len(self._buffer) <= limit:
            searched = len(self._buffer)
            if self.ended:
                return self._take(searched) or None
            await self._more()
        if not 0 <= end <= limit:
            raise FrameError("frame-too-long", f"a frame has at most {limit} bytes", fatal=True)
        line = self._take(end)
        del self._buffer[:1]
        return line

    async def receive(self, limit: int) -> bytes:
        """Received bytes: at least one, at most `limit`; empty at the end."""
        while not self._buffer and not self.ended:
            await self._more()
        return self._take(limit)

    def end_input(self) -> None:
        """Ignore everything else that the client sends."""
        self.ended = True
        self._transport.pause_reading()
        self._buffer.clear()
        self._arrived.set()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self.bytes_written += len(data)
            self._transport.write(data)

    def deliver(self, chunk: Chunk) -> None:
        """Write events of a subscription."""
        self.write(chunk.data)

    def send(self, frame: DaemonFrame) -> None:
        self.write(encode_frame(frame))

    async def drain(self) -> None:
        """Wait until the client has read most of what was written, or has disconnected."""
        while not self.writable and not self.closed:
            await self._resumed.wait()

    def close(self) -> None:
        """Close once the client has read everything written."""
        self._transport.close()

    def abort(self) -> None:
        if not self.closed:  # asyncio 3.11 fails to abort a transport that has flushed and closed
            self._transport.abort()

    async def wait_closed(self) -> None:
        await self._gone.wait()

    async def _more(self) -> None:
        self._arrived = anyio.Event()
        await self._arrived.wait()

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        if len(self._buffer) < self._read_limit and not self.ended:
            self._transport.resume_reading()
        return data


def _hung_up(connection: socket.socket) -> bool:
    """Whether the client has closed both halves. Only Linux tells; elsewhere, writing to it fails later."""
    if sys.platform != "linux":
        return False
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
