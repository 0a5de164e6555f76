"""A client's connection to the daemon: greeting, lines, frames, requests; and what can go wrong with it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
import msgspec
from anyio.abc import SocketStream

from tooltap.daemon.system.paths import socket_path
from tooltap.protocol import PROTOCOL_VERSION
from tooltap.protocol.frames import (
    ClientFrame,
    DaemonFrame,
    ErrorFrame,
    Reply,
    StoreRequest,
    Welcome,
    decode_daemon_frame,
    encode_frame,
)

__all__ = [
    "Client",
    "ConnectError",
    "DaemonError",
    "DisconnectedError",
    "NoDaemonError",
    "connect",
    "greeting",
    "request",
    "unreachable",
]

CHUNK = 262_144


class ConnectError(Exception):
    """No daemon can be reached; the message is one sentence for the user."""


class NoDaemonError(ConnectError):
    """Nobody listens."""


class DisconnectedError(Exception):
    """The daemon has closed the connection."""

    def __init__(self) -> None:
        super().__init__("the daemon has closed the connection")


class DaemonError(Exception):
    """The daemon refused something; `code` is one of `tooltap.protocol.frames.ERROR_CODES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """A connection that has been greeted. Lines come and go; `request` asks."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []
        self.welcome: Welcome

    @classmethod
    async def open(cls, path: Path | str | None = None) -> Self:
        """Raises `ConnectError` and `DaemonError`."""
        place = Path(path) if path else socket_path()
        try:
            client = cls(await anyio.connect_unix(place))
        except OSError as error:
            raise unreachable(place, error) from None
        try:
            client.welcome = greeting(place, await client._first_line())
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self) -> None:
        await self._stream.aclose()

    async def request(self, op: str, **arguments: Any) -> Any:
        """The result of a request (see `tooltap.protocol.frames`). Raises `DaemonError` and `DisconnectedError`."""
        arguments = {key: value for key, value in arguments.items() if value is not None}
        await self.write(msgspec.json.encode({"op": op, "id": 1, **arguments}) + b"\n")
        return await self._receive_result()

    async def store(self, body: bytes, **about: Any) -> str:
        """Keep a body for a time; `about` is what `tooltap.protocol.frames.StoreRequest` says of it. Gives its output
        id. Raises `DaemonError` and `DisconnectedError`."""
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
        """Raises `DisconnectedError`, or `DaemonError` where the daemon has said why it closed the connection."""
        try:
            await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._last_words()
            raise DisconnectedError from None

    async def finish_writing(self) -> None:
        try:
            await self._stream.send_eof()
        except OSError:
            await self._last_words()
            raise DisconnectedError from None

    async def receive_line(self) -> bytes:
        """The next line. Raises `DisconnectedError`."""
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
        """The next control frame; None for one this version does not know. Raises `DaemonError` for an error."""
        frame = decode_daemon_frame(await self.receive_line())
        if isinstance(frame, ErrorFrame):
            raise DaemonError(frame.code, frame.message)
        return frame

    async def _first_line(self) -> bytes:
        """Empty if there is none."""
        try:
            return await self.receive_line()
        except DisconnectedError:
            return b""

    async def _last_words(self) -> None:
        """Raises `DaemonError` if the daemon left one before it closed the connection."""
        try:
            while True:
                await self.receive_frame()
        except (DisconnectedError, msgspec.DecodeError):
            return


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


def unreachable(place: Path, error: OSError) -> ConnectError:
    """Why the socket could not be connected to."""
    if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
        return NoDaemonError(f"no daemon is listening at {place}; start one with `tooltap serve`")
    return ConnectError(f"cannot connect to {place}: {error.strerror or error}")


def greeting(place: Path, line: bytes) -> Welcome:
    """The first line of a connection, which says who is there. Raises `ConnectError` and `DaemonError`."""
    try:
        frame = decode_daemon_frame(line)
    except msgspec.DecodeError:
        frame = None
    if isinstance(frame, ErrorFrame):
        raise DaemonError(frame.code, frame.message)
    if not isinstance(frame, Welcome):
        raise ConnectError(f"what is listening at {place} is not a tooltap daemon")
    if frame.protocol != PROTOCOL_VERSION:
        raise ConnectError(
            f"the daemon at {place} speaks protocol {frame.protocol}, this client {PROTOCOL_VERSION};"
            " restart the daemon with the same version of tooltap"
        )
    return frame
