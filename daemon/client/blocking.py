"""The client without an event loop: connections, requests and subscriptions on blocking sockets."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

from tooltap.daemon.client.discovery import (
    ConnectError,
    DaemonError,
    DisconnectedError,
    NoDaemonError,
    Reading,
    Received,
    check_peer,
    connect,
    elsewhere,
    greeting,
    pauses,
    request_line,
    result_of,
    spoken,
    unreachable,
    usual_socket,
)
from tooltap.protocol.frames import ErrorFrame, Reply, RequestFor, Subscribe, decode_daemon_frame, encode_frame

R = TypeVar("R")
CHUNK = 262_144


class BlockingClient:
    """A connection to the daemon, after the daemon's greeting."""

    def __init__(self, path: Path | str | None = None, timeout: float | None = None, wait: float = 0.0) -> None:
        """`timeout`: seconds that the daemon may take for each line. `wait`: seconds to wait for a daemon that is not
        there yet. Raises `ConnectError` and `DaemonError`."""
        attempts = pauses(wait)
        while True:
            try:
                return self._find(path, timeout)
            except NoDaemonError:
                if (pause := next(attempts, None)) is None:
                    raise
                time.sleep(pause)

    def _find(self, path: Path | str | None, timeout: float | None) -> None:
        try:
            self._open(usual_socket(path), timeout)
        except NoDaemonError:
            if (found := elsewhere(path)) is None:
                raise
            self._open(found, timeout)

    def _open(self, place: Path, timeout: float | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._lines = self._socket.makefile("rb", CHUNK)
        try:
            connect(self._socket, str(place))
            check_peer(place, self._socket)
            self.welcome = greeting(place, self._lines.readline())
        except OSError as error:
            self.close()
            raise unreachable(place, error) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Write data. Raises `DisconnectedError`."""
        try:
            self._socket.sendall(data)
        except OSError:
            with suppress(OSError):  # whoever still reads gets the end, and does not wait
                self._socket.shutdown(socket.SHUT_WR)
            raise DisconnectedError from None

    def receive_line(self) -> bytes:
        """Return the next line, without its newline. Raises `DisconnectedError`, also for an incomplete line."""
        try:
            line = self._lines.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise DisconnectedError
        return line[:-1]


@overload
def ask(op: RequestFor[R], *, path: Path | str | None = None, timeout: float | None = None, wait: float = 0.0) -> R: ...
@overload
def ask(
    op: str, *, path: Path | str | None = None, timeout: float | None = None, wait: float = 0.0, **arguments: Any
) -> Any: ...
def ask(
    op: str | RequestFor[Any],
    *,
    path: Path | str | None = None,
    timeout: float | None = None,
    wait: float = 0.0,
    **arguments: Any,
) -> Any:
    """Return the result of one request on its own connection: `ask("event", seq=5, view="display")` as decoded JSON,
    `ask(EventRequest(seq=5, view="display"))` as the struct of such a result. `timeout`: seconds that the daemon may
    take for each line. `wait`: seconds to wait for a daemon that is not there yet.

    Raises `ConnectError`, `DaemonError` and `DisconnectedError`.
    """
    with closing(BlockingClient(path, timeout, wait)) as client:
        try:
            client.write(request_line(op, client.welcome, arguments))
        except DisconnectedError:
            pass  # the daemon may have said why
        while not isinstance(frame := decode_daemon_frame(client.receive_line()), Reply):
            if isinstance(frame, ErrorFrame):
                raise DaemonError(frame.code, frame.message)
    if frame.error is not None:
        raise DaemonError(frame.error.code, frame.error.message)
    return result_of(op, frame.result)


class BlockingSubscription:
    """An iterator of `Received`. It ends after the replay if `follow` is false. Otherwise it ends only by
    `DisconnectedError`, if `reconnect` is false."""

    def __init__(self, path: Path | str | None, frame: Subscribe, reconnect: bool, wait: float = 0.0) -> None:
        """`wait`: seconds to wait for a daemon that is not there yet. Raises `ConnectError` and `DaemonError`."""
        self._path = path
        self._reading = Reading(frame)
        self._reconnect = reconnect
        self._client = self._open(wait)

    @property
    def cursor(self) -> str | None:
        """The cursor after the last item: pass it as `after` to resume. None before the first item."""
        return self._reading.cursor

    def __iter__(self) -> Iterator[Received]:
        while not self._reading.finished:
            try:
                received = self._reading.take(self._client.receive_line())
            except DisconnectedError:
                if not self._reconnect:
                    raise
                self._reopen()
                continue
            if received is not None:
                yield received

    def close(self) -> None:
        self._client.close()

    def _open(self, wait: float = 0.0) -> BlockingClient:
        client = BlockingClient(self._path, wait=wait)
        try:
            frame = msgspec.structs.replace(self._reading.frame, **spoken(client.welcome))
            client.write(encode_frame(frame))
        except BaseException:
            client.close()
            raise
        return client

    def _reopen(self) -> None:
        """Reconnect as soon as a daemon is available, and resume after the last item."""
        self.close()
        for pause in pauses(math.inf):
            try:
                self._client = self._open()
                return
            except (ConnectError, DisconnectedError):
                time.sleep(pause)
