"""The daemon's greeting, and the errors of a connection: what clients with and without an event loop share."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from tooltap.daemon.system.listener import peer_uid
from tooltap.protocol import PROTOCOL_VERSION
from tooltap.protocol.frames import ErrorFrame, Welcome, decode_daemon_frame

__all__ = [
    "ConnectError",
    "DaemonError",
    "DisconnectedError",
    "NoDaemonError",
    "check_peer",
    "greeting",
    "unreachable",
]


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
        return NoDaemonError(f"no daemon is listening at {place}; start one with `tooltap serve`")
    return ConnectError(f"cannot connect to {place}: {error.strerror or error}")


def check_peer(place: Path, connection: socket.socket) -> None:
    """Check, before anything is sent, that no other user has put a socket into the daemon's place. Raises
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
