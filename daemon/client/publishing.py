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
from tooltap.protocol.frames import Ack, DaemonFrame, Done, Ingest, Ingesting, Suspended, ToAgent
from tooltap.protocol.inputs import Answer, Direction, write_answer, write_tapped


class OtherInputError(Exception):
    """The daemon has other lines under this stream id: this input needs a stream id of its own."""


class Publisher:
    """Publishes one stream; made by `ingest`.

    A write waits if the daemon does not keep up. Only `wait_acked`, `suspend`, `end` and `receive` read
    acknowledgements; a publisher need not read them. Every method raises `DaemonError` (`superseded`: another publisher
    has taken over the stream) and `DisconnectedError`.
    """

    def __init__(self, client: Client, framing: str, ingesting: Ingesting) -> None:
        self._client = client
        self._framing = framing
        self.ingesting = ingesting
        """What the daemon has of the stream: continue after line `ingesting.lines`."""
        self.acked = ingesting.lines
        """Lines that the daemon has committed."""

    @property
    def stream(self) -> str:
        return self.ingesting.stream

    def has(self, number: int, line: bytes) -> bool:
        """Say whether the daemon has line `number` (from 1) of the input. Raises `OtherInputError` if the daemon has
        another line with this number."""
        known = self.ingesting
        if number == known.crc_line and known.crc != f"{zlib.crc32(line):08x}":
            raise OtherInputError(f"stream {known.stream} was another input up to line {number}")
        return number <= known.lines

    async def send(self, line: bytes, *, t: int | None = None, direction: Direction | None = None) -> None:
        """Send a line of the agent, without its newline (framing `tapped`)."""
        await self.write(write_tapped(line, t, direction) + b"\n")

    async def write(self, data: bytes) -> None:
        """Send bytes: the agent's (framing `raw`), or whole tapped lines."""
        await self._client.write(data)

    async def lost(self, lines: int, size: int, reason: str) -> None:
        """Report a loss: `lines` lines, together `size` bytes, will not come."""
        await self.write(msgspec.json.encode({"op": "lost", "lines": lines, "bytes": size, "reason": reason}) + b"\n")

    async def wait_acked(self, lines: int) -> None:
        """Wait until the first `lines` lines are durable."""
        while self.acked < lines:
            await self.receive()

    async def suspend(self) -> int:
        """Leave without ending the stream; return how many lines the daemon has. Framing `tapped` only."""
        await self.leave()
        while not isinstance(frame := await self.receive(), Suspended):
            pass
        return frame.lines

    async def answer(self, frame: ToAgent, refused: str | None = None) -> None:
        """Answer a frame for the agent, which `receive` returned: the agent has got it, or why not."""
        await self.write(write_answer(Answer(frame.id, refused)) + b"\n")

    async def leave(self) -> None:
        """Say that nothing more will be written. Framing `tapped`: the stream is suspended, which `receive` returns."""
        await self._client.finish_writing()

    async def end(self) -> Done:
        """End the stream and return its statistics."""
        if self._framing == "raw":
            await self._client.finish_writing()
        else:
            await self.write(b'{"op":"end"}\n')
        while not isinstance(frame := await self.receive(), Done):
            pass
        return frame

    async def receive(self) -> DaemonFrame | None:
        """Return the next frame, usually an `Ack`. `acked` is then up to date."""
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
    started: int | None = None,
    prompt: str | None = None,
    from_line: int | None = None,
    to_agent: bool = False,
    path: Path | str | None = None,
    wait: float = 0.0,
) -> AsyncIterator[Publisher]:
    """Publish a stream; the arguments are the keys of the `ingest` frame. `wait`: seconds to wait for a daemon that is
    not there yet. Raises `ConnectError` and `DaemonError`."""
    frame = Ingest(
        stream=stream,
        framing=framing,
        dialect=dialect,
        provider=provider,
        session=session,
        agent=agent,
        parent=parent,
        mcp_servers=mcp_servers,
        started=started,
        prompt=prompt,
        from_=from_line,
        to_agent=to_agent,
    )
    async with connect(path, wait=wait) as client:
        await client.send(frame)
        while not isinstance(ingesting := await client.receive_frame(), Ingesting):
            pass
        yield Publisher(client, framing, ingesting)
