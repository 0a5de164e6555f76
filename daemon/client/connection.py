"""A client's connection to the daemon, with an event loop: lines, frames, requests."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from tooltap.daemon.client.discovery import (
    DaemonError,
    DisconnectedError,
    NoDaemonError,
    check_peer,
    elsewhere,
    greeting,
    pauses,
    unreachable,
    usual_socket,
)
from tooltap.protocol.frames import (
    ClientFrame,
    DaemonFrame,
    ErrorFrame,
    Reply,
    Welcome,
    decode_daemon_frame,
    encode_frame,
)
from tooltap.protocol.requests import StoreRequest

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

    async def request(self, op: str, **arguments: Any) -> Any:
        """The result of a request (`tooltap.protocol.requests`). Raises `DaemonError` and `DisconnectedError`."""
        arguments = {key: value for key, value in arguments.items() if value is not None}
        await self.write(msgspec.json.encode({"op": op, "id": 1, **arguments}) + b"\n")
        return await self._receive_result()

    async def store(self, body: bytes, **about: Any) -> str:
        """Store a body for a limited time and return its output id. `about`: fields of
        `tooltap.protocol.requests.StoreRequest`. Raises `DaemonError` and `DisconnectedError`."""
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
        await self.write(encode_frame(frame))

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


async def request(op: str, *, path: Path | str | None = None, wait: float = 0.0, **arguments: Any) -> Any:
    """Return the result of one request on its own connection: `await request("event", seq=5, view="display")`. `wait`:
    seconds to wait for a daemon that is not there yet."""
    async with connect(path, wait=wait) as client:
        return await client.request(op, **arguments)
