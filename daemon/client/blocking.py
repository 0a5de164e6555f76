"""The client without an event loop: a connection, a request, a subscription, by plain blocking sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tooltap.daemon.client.connection import ConnectError, DaemonError, DisconnectedError, greeting, unreachable
from tooltap.daemon.client.reading import RETRY_FIRST, RETRY_MOST, Reading, Received
from tooltap.daemon.system.paths import socket_path
from tooltap.protocol.frames import Reply, Subscribe, decode_daemon_frame, encode_frame

__all__ = ["BlockingClient", "BlockingSubscription", "ask"]


class BlockingClient:
    """A connection that has been greeted."""

    def __init__(self, path: Path | str | None = None, timeout: float | None = None) -> None:
        """`timeout`: seconds that the daemon may take for each answer. Raises `ConnectError` and `DaemonError`."""
        place = Path(path) if path else socket_path()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._lines = self._socket.makefile("rb")
        try:
            self._socket.connect(str(place))
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
        """Raises `DisconnectedError`."""
        try:
            self._socket.sendall(data)
        except OSError:
            raise DisconnectedError from None

    def receive_line(self) -> bytes:
        """The next line, without its newline. Raises `DisconnectedError`, also where the daemon ended within a line."""
        try:
            line = self._lines.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise DisconnectedError
        return line[:-1]


def ask(op: str, *, path: Path | str | None = None, timeout: float | None = None, **arguments: Any) -> Any:
    """The result of one request, on a connection of its own: `ask("event", seq=5, view="display")`. `timeout`: seconds
    that the daemon may take for each answer.

    Raises `ConnectError`, `DaemonError` and `DisconnectedError`.
    """
    with closing(BlockingClient(path, timeout)) as client:
        client.write(msgspec.json.encode({"op": op, "id": 1, **arguments}) + b"\n")
        while not isinstance(frame := decode_daemon_frame(client.receive_line()), Reply):
            pass
    if frame.error is not None:
        raise DaemonError(frame.error.code, frame.error.message)
    return frame.result


class BlockingSubscription:
    """An iterator of `Received`. It ends after the replay if `follow` was false; otherwise never, save by
    `DisconnectedError` where `reconnect` is false."""

    def __init__(self, path: Path | str | None, frame: Subscribe, reconnect: bool) -> None:
        """Raises `ConnectError` and `DaemonError`."""
        self._path = path
        self._reading = Reading(frame)
        self._reconnect = reconnect
        self._client = self._open()

    @property
    def cursor(self) -> str | None:
        """Where to go on later (`after`): behind the last item given. None before the first."""
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

    def _open(self) -> BlockingClient:
        client = BlockingClient(self._path)
        try:
            client.write(encode_frame(self._reading.frame))
        except BaseException:
            client.close()
            raise
        return client

    def _reopen(self) -> None:
        """Go on behind the last item given, as soon as there is a daemon."""
        self.close()
        wait = RETRY_FIRST
        while True:
            try:
                self._client = self._open()
                return
            except (ConnectError, DisconnectedError):
                time.sleep(wait)
                wait = min(wait * 2, RETRY_MOST)
