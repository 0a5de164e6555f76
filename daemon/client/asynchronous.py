"""The client with an event loop: connections, requests, subscriptions and publishing.

    async with subscribe(after="start", filter=Filter(kind=("tool-call",))) as subscription:
        async for item in subscription:        # bytes: an event line; else a control frame
            if isinstance(item, bytes):
                print(decode(item))            # tooltap.protocol.events.decode

    async with subscribe(as_="display") as subscription:
        async for shown in subscription.display_events():       # tooltap.protocol.display
            if isinstance(shown, DisplayText):
                print(shown.text)

    async with ingest(stream="my-agent") as publisher:
        await publisher.send(b'{"type":"..."}', t=now_in_ms, direction="out")
        statistics = await publisher.end()

`events.py` decodes the lines of a subscription to typed events.
"""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, overload

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from tooltap.daemon.client.discovery import (
    ConnectError,
    DaemonError,
    DisconnectedError,
    NoDaemonError,
    Reading,
    Received,
    check_peer,
    elsewhere,
    greeting,
    pauses,
    request_line,
    result_of,
    spoken,
    unreachable,
    usual_socket,
)
from tooltap.protocol.display import AnyDisplayEvent, decode_display
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import (
    Ack,
    ClientFrame,
    DaemonFrame,
    Done,
    ErrorFrame,
    Form,
    Ingest,
    Ingesting,
    Reply,
    RequestFor,
    StoreRequest,
    Subscribe,
    Suspended,
    ToAgent,
    Welcome,
    decode_daemon_frame,
    encode_frame,
)
from tooltap.protocol.inputs import Answer, Direction, ProcessEnd, write_answer, write_end, write_tapped

R = TypeVar("R")

CHUNK = 262_144


class Client:
    """A connection to the daemon, after the daemon's greeting."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []
        self.welcome: Welcome

    @classmethod
    async def open(cls, path: Path | str | None = None, wait: float = 0.0) -> Self:
        """Connect and read the greeting. `wait`: seconds to wait for a daemon that is not there yet. Raises
        `ConnectError` and `DaemonError`."""
        attempts = pauses(wait)
        while True:
            try:
                return await cls._find(path)
            except NoDaemonError:
                if (pause := next(attempts, None)) is None:
                    raise
                await anyio.sleep(pause)

    @classmethod
    async def _find(cls, path: Path | str | None) -> Self:
        try:
            return await cls._open(usual_socket(path))
        except NoDaemonError:
            if (found := await anyio.to_thread.run_sync(elsewhere, path)) is None:
                raise
            return await cls._open(found)

    @classmethod
    async def _open(cls, place: Path) -> Self:
        try:
            client = cls(await anyio.connect_unix(place))
        except OSError as error:
            raise unreachable(place, error) from None
        try:
            try:
                check_peer(place, client._stream.extra(SocketAttribute.raw_socket))
            except OSError as error:
                raise unreachable(place, error) from None
            client.welcome = greeting(place, await client._first_line())
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self) -> None:
        await self._stream.aclose()

    @overload
    async def request(self, op: RequestFor[R]) -> R: ...
    @overload
    async def request(self, op: str, **arguments: Any) -> Any: ...
    async def request(self, op: str | RequestFor[Any], **arguments: Any) -> Any:
        """The result of a request (`tooltap.protocol.frames`): of a struct as a struct, else as decoded JSON. Raises
        `DaemonError` and `DisconnectedError`."""
        await self.write(request_line(op, self.welcome, arguments))
        return result_of(op, await self._receive_result())

    async def store(self, body: bytes, **about: Any) -> str:
        """Store a body for a limited time and return its output id. `about`: fields of
        `tooltap.protocol.frames.StoreRequest`. Raises `DaemonError` and `DisconnectedError`."""
        await self.send(StoreRequest(bytes=len(body), **about))
        await self.write(body)
        return str((await self._receive_result())["outputId"])

    async def _receive_result(self) -> Any:
        while not isinstance(frame := await self.receive_frame(), Reply):
            pass
        if frame.error is not None:
            raise DaemonError(frame.error.code, frame.error.message)
        return frame.result

    async def send(self, frame: ClientFrame) -> None:
        await self.write(encode_frame(msgspec.structs.replace(frame, **spoken(self.welcome))))

    async def write(self, data: bytes) -> None:
        """Write data. Raises `DisconnectedError`, or `DaemonError` if the daemon reported a reason."""
        try:
            await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            with suppress(
                OSError, anyio.ClosedResourceError
            ):  # a daemon that still reads gets the end, and does not wait
                await self._stream.send_eof()
            await self._raise_last_error()
            raise DisconnectedError from None

    async def finish_writing(self) -> None:
        try:
            await self._stream.send_eof()
        except OSError:
            await self._raise_last_error()
            raise DisconnectedError from None

    async def receive_line(self) -> bytes:
        """Return the next line, without its newline. Raises `DisconnectedError`."""
        while not self._lines:
            try:
                data = await self._stream.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise DisconnectedError from None
            *whole, rest = data.split(b"\n")
            if whole:
                whole[0] = b"".join([*self._rest, whole[0]])
                self._rest = []
                self._lines.extend(whole)
            self._rest.append(rest)
        return self._lines.popleft()

    async def receive_frame(self) -> DaemonFrame | None:
        """Return the next control frame; None if this version does not know it. Raises `DaemonError`."""
        frame = decode_daemon_frame(await self.receive_line())
        if isinstance(frame, ErrorFrame):
            raise DaemonError(frame.code, frame.message)
        return frame

    async def _first_line(self) -> bytes:
        """Return the first line; empty if there is none."""
        try:
            return await self.receive_line()
        except DisconnectedError:
            return b""

    async def _raise_last_error(self) -> None:
        """Read what the daemon sent before it closed the connection. Raises `DaemonError` if that is an error frame."""
        try:
            while True:
                await self.receive_frame()
        except (DisconnectedError, msgspec.DecodeError):
            return


@asynccontextmanager
async def connect(path: Path | str | None = None, *, wait: float = 0.0) -> AsyncIterator[Client]:
    """Open a connection for requests. `path`: of the socket; default: the user's. `wait`: seconds to wait for a daemon
    that is not there yet. Raises `ConnectError`."""
    client = await Client.open(path, wait)
    try:
        yield client
    finally:
        await client.close()


@overload
async def request(op: RequestFor[R], *, path: Path | str | None = None, wait: float = 0.0) -> R: ...
@overload
async def request(op: str, *, path: Path | str | None = None, wait: float = 0.0, **arguments: Any) -> Any: ...
async def request(
    op: str | RequestFor[Any], *, path: Path | str | None = None, wait: float = 0.0, **arguments: Any
) -> Any:
    """Return the result of one request on its own connection: `await request("event", seq=5, view="display")` as
    decoded JSON, `await request(EventRequest(seq=5, view="display"))` as the struct of such a result. `wait`: seconds
    to wait for a daemon that is not there yet."""
    async with connect(path, wait=wait) as client:
        return await client.request(op, **arguments)


# -- subscribing ------------------------------------------------------------------------------------------------------


class Subscription:
    """An asynchronous iterator of `Received`, made by `subscribe`.

    It ends after the replay if `follow` is false. Otherwise it ends only by `DisconnectedError`, if `reconnect` is
    false. It includes every `Gap`; the events in a gap will not come.
    """

    def __init__(self, path: Path | str | None, frame: Subscribe, reconnect: bool) -> None:
        self._path = path
        self._reading = Reading(frame)
        self._reconnect = reconnect
        self._client: Client | None = None

    @property
    def cursor(self) -> str | None:
        """The cursor after the last item: pass it as `after` to resume. None before the first item."""
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
        """Decode the lines of a subscription `as_="display"`. Kinds that this version does not know are left out."""
        async for item in self:
            if isinstance(item, bytes) and (shown := decode_display(item)) is not None:
                yield shown

    async def open(self, wait: float = 0.0) -> None:
        """Connect and subscribe. `wait`: seconds to wait for a daemon that is not there yet. Raises `ConnectError` and
        `DaemonError`."""
        self._client = await Client.open(self._path, wait)
        await self._client.send(self._reading.frame)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _receive(self) -> bytes:
        if self._client is None:
            raise DisconnectedError
        return await self._client.receive_line()

    async def _reopen(self) -> None:
        """Reconnect as soon as a daemon is available, and resume after the last item."""
        for pause in pauses(math.inf):
            await self.close()
            self._client = None
            try:
                await self.open()
                return
            except (ConnectError, DisconnectedError):
                await anyio.sleep(pause)


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
    wait: float = 0.0,
) -> AsyncIterator[Subscription]:
    """Subscribe to event lines after `after`: `start`, `now`, a `seq`, or the `cursor` of an earlier subscription.

    `as_`: with `display` the lines are display lines, what a user interface shows of the events; filters and cursors
    still refer to events. `reconnect`: if the daemon goes away, wait for it and resume without loss. `wait`:
    seconds to wait for a daemon that is not there at first; then `ConnectError` is raised.
    """
    frame = Subscribe(after=after, filter=filter or ALL_EVENTS, partials=partials, follow=follow, as_=as_)
    subscription = Subscription(path, frame, reconnect)
    try:
        await subscription.open(wait)
        yield subscription
    finally:
        await subscription.close()


# -- publishing -------------------------------------------------------------------------------------------------------


class OtherInputError(Exception):
    """The daemon has a different input under this stream id: this input needs a stream id of its own."""


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
        """The daemon's first frame, with the stored position of the stream: continue after line `ingesting.lines`."""
        self.acked = ingesting.lines
        """Number of lines that the daemon has committed."""

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
        """Report that `lines` lines, `size` bytes in all, were lost and will not be sent."""
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
        """Answer a frame for the agent that `receive` returned. `refused`: the reason why the agent did not get it."""
        await self.write(write_answer(Answer(frame.id, refused)) + b"\n")

    async def leave(self) -> None:
        """Half-close: nothing more will be written. With framing `tapped`, the stream is suspended, and `receive`
        returns `Suspended`."""
        await self._client.finish_writing()

    async def end(self, process: ProcessEnd | None = None) -> Done:
        """End the stream and return its statistics. `process`: how the process that wrote the lines ended, if that is
        known; framing `tapped` only."""
        if self._framing == "raw":
            await self._client.finish_writing()
        else:
            await self.write(write_end(None, process) + b"\n")
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
    cwd: str | None = None,
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
        cwd=cwd,
        prompt=prompt,
        from_=from_line,
        to_agent=to_agent,
    )
    async with connect(path, wait=wait) as client:
        await client.send(frame)
        while not isinstance(ingesting := await client.receive_frame(), Ingesting):
            pass
        yield Publisher(client, framing, ingesting)
