"""Publishing a stream: an ingest connection, with an event loop.

async with ingest(stream="my-agent") as publisher:
    await publisher.send(b'{"type":"..."}', t=now_in_ms, direction="out")
    statistics = await publisher.end()
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tooltap.daemon.client.connection import Client, connect
from tooltap.protocol.frames import Ack, DaemonFrame, Done, Ingest, Ingesting, Suspended
from tooltap.protocol.tapped import Direction, write_tapped

__all__ = ["OtherInputError", "Publisher", "ingest"]


class OtherInputError(Exception):
    """The daemon has other lines under this stream id: this input needs a stream id of its own."""


class Publisher:
    """One stream's lines on their way to the daemon, made by `ingest`.

    A write waits when the daemon does not keep up. Acknowledgements are read only by `wait_acked`, `suspend` and
    `end`; there is no need to read them. Every method raises `DaemonError` (`superseded`: another publisher has taken
    the stream) and `DisconnectedError`.
    """

    def __init__(self, client: Client, framing: str, ingesting: Ingesting) -> None:
        self._client = client
        self._framing = framing
        self.ingesting = ingesting
        """How far the daemon is: go on after line `ingesting.lines`."""
        self.acked = ingesting.lines
        """Lines known to be durable."""

    @property
    def stream(self) -> str:
        return self.ingesting.stream

    def has(self, number: int, line: bytes) -> bool:
        """Whether line `number` (1-based) of the input has been sent before. Raises `OtherInputError` when the
        daemon's line of that number is not this one."""
        known = self.ingesting
        if number == known.crc_line and known.crc != f"{zlib.crc32(line):08x}":
            raise OtherInputError(f"stream {known.stream} was another input up to line {number}")
        return number <= known.lines

    async def send(self, line: bytes, *, t: int | None = None, direction: Direction | None = None) -> None:
        """One line of the provider's, without its newline (framing `tapped`)."""
        await self.write(write_tapped(line, t, direction) + b"\n")

    async def write(self, data: bytes) -> None:
        """Bytes as they are: the provider's (framing `raw`), or whole tapped lines."""
        await self._client.write(data)

    async def lost(self, lines: int, size: int, reason: str) -> None:
        """`lines` lines, together `size` bytes, could not be kept and will not come."""
        await self.write(msgspec.json.encode({"op": "lost", "lines": lines, "bytes": size, "reason": reason}) + b"\n")

    async def wait_acked(self, lines: int) -> None:
        """Until the first `lines` lines are durable."""
        while self.acked < lines:
            await self.receive()

    async def suspend(self) -> int:
        """Leave without ending the stream; gives how many lines the daemon has. Framing `tapped`."""
        await self._client.finish_writing()
        while not isinstance(frame := await self.receive(), Suspended):
            pass
        return frame.lines

    async def end(self) -> Done:
        """The stream is over; gives the statistics of all of it."""
        if self._framing == "raw":
            await self._client.finish_writing()
        else:
            await self.write(b'{"op":"end"}\n')
        while not isinstance(frame := await self.receive(), Done):
            pass
        return frame

    async def receive(self) -> DaemonFrame | None:
        """The next frame: mostly an `Ack`, after which `acked` is up to date."""
        frame = await self._client.receive_frame()
        if isinstance(frame, Ack):
            self.acked = frame.lines
        return frame


@asynccontextmanager
async def ingest(
    *,
    stream: str | None = None,
    framing: Literal["raw", "tapped"] = "tapped",
    dialect: str = "auto",
    provider: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    parent: str | None = None,
    mcp_servers: tuple[str, ...] = (),
    from_line: int | None = None,
    path: Path | str | None = None,
) -> AsyncIterator[Publisher]:
    """Publish a stream; the keys are those of the `ingest` frame. Raises `ConnectError` and `DaemonError`."""
    frame = Ingest(
        stream=stream,
        framing=framing,
        dialect=dialect,
        provider=provider,
        session=session,
        agent=agent,
        parent=parent,
        mcp_servers=mcp_servers,
        from_=from_line,
    )
    async with connect(path) as client:
        await client.send(frame)
        while not isinstance(ingesting := await client.receive_frame(), Ingesting):
            pass
        yield Publisher(client, framing, ingesting)
