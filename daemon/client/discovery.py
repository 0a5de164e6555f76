"""Code shared by the asynchronous and the blocking client: finding a daemon, its greeting, the errors of a connection,
and the cursor of a subscription.

A program started by an agent or an editor may lack the environment variables that locate the default socket. So if no
socket is given, and no daemon listens at the default one, the newest daemon of this user that answers is used.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from tooltap import __version__
from tooltap.daemon.system.listener import is_listening, peer_uid
from tooltap.daemon.system.paths import SOCKET_VARIABLE, socket_path
from tooltap.protocol import PROTOCOL_VERSION
from tooltap.protocol.frames import (
    At,
    ErrorFrame,
    Gap,
    Live,
    RequestFor,
    Subscribe,
    Subscribed,
    Welcome,
    decode_daemon_frame,
)
from tooltap.protocol.replies import RESULTS


class ConnectError(Exception):
    """No daemon can be reached; the message is one sentence for the user."""


class NoDaemonError(ConnectError):
    """No daemon listens at the socket."""


class DisconnectedError(Exception):
    """The daemon has closed the connection."""

    def __init__(self) -> None:
        super().__init__("the daemon has closed the connection")


class DaemonError(Exception):
    """The daemon refused something; `code` is one of `tooltap.protocol.frames.ERROR_CODES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def unreachable(place: Path, error: OSError) -> ConnectError:
    """Return the error for a socket that cannot be connected."""
    if isinstance(error, ConnectionRefusedError) and not place.is_socket():
        what = "a folder" if place.is_dir() else "a file"
        return ConnectError(f"{place} is {what}, and not a daemon's socket: see --socket and TOOLTAP_SOCKET")
    if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
        return NoDaemonError(f"no daemon is listening at {place}; start one with `tooltap up`")
    return ConnectError(f"cannot connect to {place}: {error.strerror or error}")


def check_peer(place: Path, connection: socket.socket) -> None:
    """Check, before anything is sent, that the socket's server runs as this user, and is not an impostor. Raises
    `ConnectError` and `OSError`."""
    if peer_uid(connection) != os.geteuid():
        raise ConnectError(f"what is listening at {place} belongs to another user")


def greeting(place: Path, line: bytes) -> Welcome:
    """Parse the first line of a connection. Raises `ConnectError` and `DaemonError`."""
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


def spoken(welcome: Welcome) -> dict[str, str]:
    """The keys of a frame that tell a daemon of another release which one this client speaks; else none."""
    return {} if welcome.daemon == f"tooltap/{__version__}" else {"speaks": __version__}


def request_line(op: str | RequestFor[Any], welcome: Welcome, arguments: dict[str, Any]) -> bytes:
    """Return the line of a request: a struct, or its `op` and arguments, of which None is as good as absent."""
    if isinstance(op, RequestFor):
        return msgspec.json.encode(msgspec.structs.replace(op, id=1, **spoken(welcome))) + b"\n"
    given = {key: value for key, value in arguments.items() if value is not None}
    return msgspec.json.encode({"op": op, "id": 1, **spoken(welcome), **given}) + b"\n"


def result_of(op: str | RequestFor[Any], result: Any) -> Any:
    """Return the result of a request in the form that `ask` promises."""
    kind = None if isinstance(op, str) else RESULTS.get(str(op.__struct_config__.tag))
    return result if kind is None else msgspec.convert(result, kind)


RETRY_FIRST, RETRY_MOST = 0.1, 2.0
"""Shortest and longest backoff between attempts to reach a daemon, in seconds."""
PATIENCE = 2.0
"""Timeout in seconds for the greeting of a daemon that has recorded itself."""
QUEUE_PAUSE = 0.01
"""Seconds between attempts to connect while the daemon's accept queue is full."""


def find_socket() -> Path:
    """Return the socket of the user's daemon: `$TOOLTAP_SOCKET`; else the default one if a daemon listens there; else
    that of a daemon that has recorded itself; else the default one, for a daemon that starts later."""
    place = socket_path()
    if is_listening(str(place)):
        return place
    return elsewhere(None) or place


def usual_socket(path: Path | str | None) -> Path:
    """Return the socket to try first. `path`: given by the caller, or None for the default."""
    return Path(path) if path else socket_path()


def elsewhere(path: Path | str | None) -> Path | None:
    """Return the socket of the newest daemon that has recorded itself and answers; None if there is none, or a socket
    is given. May take seconds if a daemon is busy."""
    if path or os.environ.get(SOCKET_VARIABLE):
        return None
    from tooltap.daemon.system.running_daemons import recorded

    return next((Path(one.socket) for one in recorded() if _greets(one.socket, one.journal)), None)


def pauses(wait: float) -> Iterator[float]:
    """Yield the seconds to sleep before each new attempt to reach a daemon, `wait` seconds in all (exponential
    backoff)."""
    end, pause = time.monotonic() + wait, RETRY_FIRST
    while (left := end - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 2, RETRY_MOST)


def connect(connection: socket.socket, path: str) -> None:
    """Connect a blocking socket. If the daemon's accept queue is full, `connect` on a socket with a timeout fails at
    once instead of waiting; so this retries until the timeout. Raises `OSError`."""
    end = time.monotonic() + (connection.gettimeout() or 0)
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(QUEUE_PAUSE)


def _greets(path: str, journal: str) -> bool:
    place = Path(path)
    with closing(socket.socket(socket.AF_UNIX)) as connection, closing(connection.makefile("rb")) as lines:
        connection.settimeout(PATIENCE)
        try:
            connect(connection, path)
            check_peer(place, connection)
            return greeting(place, lines.readline()).journal == journal
        except (OSError, ValueError, ConnectError, DaemonError):
            return False


Received: TypeAlias = bytes | Subscribed | Live | At | Gap
"""An item of a subscription: an event line without its newline, or a control frame."""


class Reading:
    """State of one subscription across reconnects: decodes its lines and tracks its cursor. Does no I/O."""

    def __init__(self, frame: Subscribe) -> None:
        self._frame = frame
        self._journal = ""
        self._seq: int | None = None
        self.finished = False
        """True if the replay is over and no live events follow."""

    @property
    def cursor(self) -> str | None:
        """The cursor after the last line. None until the daemon has reported where the subscription begins."""
        return None if self._seq is None else f"{self._journal}:{self._seq}"

    @property
    def frame(self) -> Subscribe:
        """The `subscribe` frame to send on a connection; after the first, it resumes after the cursor."""
        return self._frame if self.cursor is None else msgspec.structs.replace(self._frame, after=self.cursor)

    def take(self, line: bytes) -> Received | None:
        """Read the next line. Return None for a frame that this version does not know. Raises `DaemonError`."""
        if not line.startswith(b'{"op":'):
            if line.startswith(b'{"seq":'):
                self._seq = int(line[7 : line.index(b",")])
            return line
        frame = decode_daemon_frame(line)
        match frame:
            case Subscribed():
                self._journal, self._seq = frame.journal, frame.after
                return frame
            case Live() | At():
                self._seq = frame.seq
                self.finished = isinstance(frame, Live) and not self._frame.follow
                return frame
            case Gap():  # the cursor stays: some events in the gap may still exist and come next
                return frame
            case ErrorFrame():
                raise DaemonError(frame.code, frame.message)
        return None
