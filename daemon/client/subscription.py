"""The client of the daemon's socket: subscribe, publish, ask. Every command uses it, and so can any program; those
that want typed events alone find `tooltap.client.subscribe` simpler.

    async with subscribe(after="start", filter=Filter(kind=("tool-call",))) as events:
        async for item in events:              # bytes: an event line; else a control frame
            if isinstance(item, bytes):
                print(decode(item))            # tooltap.protocol.events.decode

    async with ingest(stream="my-agent", framing="tapped") as publisher:
        await publisher.send(b'{"type":"..."}', t=now_in_ms, direction="out")
        statistics = await publisher.end()

    async with subscribe(as_="display") as subscription:
        async for shown in subscription.display_events():       # tooltap.protocol.display
            if isinstance(shown, DisplayText):
                print(shown.text)

    stats = await request("stats")

One connection does one of these. It depends on the protocol alone, not on the daemon behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import msgspec

from tooltap.daemon.client.connection import Client, ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.client.reading import RETRY_FIRST, RETRY_MOST, Reading, Received
from tooltap.protocol.display import AnyDisplayEvent, decode_display
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import (
    Ack,
    DaemonFrame,
    Done,
    Form,
    Ingest,
    Ingesting,
    Subscribe,
    Suspended,
)
from tooltap.protocol.tapped import Direction, write_tapped

__all__ = [
    "Client",
    "ConnectError",
    "DaemonError",
    "DisconnectedError",
    "Filter",
    "OtherInputError",
    "Publisher",
    "Received",
    "Subscription",
    "connect",
    "ingest",
    "request",
    "subscribe",
]


class OtherInputError(Exception):
    """The stream's lines at the daemon are not those of this input: it needs a stream id of its own."""


@asynccontextmanager
async def connect(path: Path | str | None = None) -> AsyncIterator[Client]:
    """A connection for requests. `path`: of the socket, if not the default one. Raises `ConnectError`."""
    client = await Client.open(path)
    try:
        yield client
    finally:
        await client.close()


async def request(op: str, *, path: Path | str | None = None, **arguments: Any) -> Any:
    """One request on a connection of its own: `await request("event", seq=5, view="display")`."""
    async with connect(path) as client:
        return await client.request(op, **arguments)


# -- subscribing ------------------------------------------------------------------------------------------------


class Subscription:
    """An asynchronous iterator of `Received`, made by `subscribe`.

    It ends after the replay if `follow` was false; otherwise never, save by `DisconnectedError` where `reconnect` is
    false. Every `Gap` is given: what it names will not come.
    """

    def __init__(self, path: Path | str | None, frame: Subscribe, reconnect: bool) -> None:
        self._path = path
        self._reading = Reading(frame)
        self._reconnect = reconnect
        self._client: Client | None = None

    @property
    def cursor(self) -> str | None:
        """Where to go on later (`after`): behind the last item given. None before the first."""
        return self._reading.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        while not self._reading.finished:
            try:
                received = self._reading.take(await self._receive())
            except DisconnectedError:
                if not self._reconnect:
                    raise
                await self._reopen()
                continue
            if received is not None:
                return received
        raise StopAsyncIteration

    async def display_events(self) -> AsyncIterator[AnyDisplayEvent]:
        """What a subscription `as_="display"` shows, decoded. Kinds that this version does not know are left out."""
        async for item in self:
            if isinstance(item, bytes) and (shown := decode_display(item)) is not None:
                yield shown

    async def open(self) -> None:
        """Raises `ConnectError` and `DaemonError`."""
        self._client = await Client.open(self._path)
        await self._client.send(self._reading.frame)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _receive(self) -> bytes:
        if self._client is None:
            raise DisconnectedError
        return await self._client.receive_line()

    async def _reopen(self) -> None:
        """Go on behind the last item given, as soon as there is a daemon."""
        wait = RETRY_FIRST
        while True:
            await self.close()
            self._client = None
            try:
                return await self.open()
            except (ConnectError, DisconnectedError):
                await anyio.sleep(wait)
                wait = min(wait * 2, RETRY_MOST)


@asynccontextmanager
async def subscribe(
    *,
    after: str | int = "now",
    filter: Filter | None = None,  # noqa: A002 -- the key's name on the wire
    partials: bool = False,
    as_: Form = "events",
    follow: bool = True,
    reconnect: bool = False,
    path: Path | str | None = None,
) -> AsyncIterator[Subscription]:
    """Event lines from `after` on: `start`, `now`, a seq, or a `cursor` kept from earlier.

    `as_`: `display` gives, instead of the events, what a user interface shows of them; filters and cursors are those
    of the events. `reconnect`: when the daemon goes away, wait for it and go on without loss. Raises `ConnectError` if
    there is none to begin with.
    """
    frame = Subscribe(after=after, filter=filter or Filter(), partials=partials, follow=follow, as_=as_)
    subscription = Subscription(path, frame, reconnect)
    await subscription.open()
    try:
        yield subscription
    finally:
        await subscription.close()


# -- publishing -------------------------------------------------------------------------------------------------


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
