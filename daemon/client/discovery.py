"""Where a daemon is: at the usual socket, or where a daemon has recorded itself, and when to look again.

A program that an agent or an editor starts may lack the variables that locate the usual socket. So where none is named,
and no daemon is at the usual one, the newest daemon of this user that answers is taken.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tooltap.daemon.client.greeting import ConnectError, DaemonError, check_peer, greeting
from tooltap.daemon.system.listener import is_listening
from tooltap.daemon.system.paths import SOCKET_VARIABLE, socket_path

__all__ = ["connect", "elsewhere", "find_socket", "pauses", "usual_socket"]

RETRY_FIRST, RETRY_MOST = 0.1, 2.0
"""Seconds between attempts to reach a daemon that is away."""
PATIENCE = 2.0
"""Seconds in which a daemon that has recorded itself must greet."""
QUEUE_PAUSE = 0.01
"""Seconds between attempts to get into a full queue."""


def find_socket() -> Path:
    """Return the socket of the user's daemon: `$TOOLTAP_SOCKET`; else the usual one if a daemon listens there, or that
    of a daemon that has recorded itself; else the usual one, for a daemon to come."""
    place = socket_path()
    if is_listening(str(place)):
        return place
    return elsewhere(None) or place


def usual_socket(path: Path | str | None) -> Path:
    """Return the socket to try first. `path`: as the caller names it, if he does."""
    return Path(path) if path else socket_path()


def elsewhere(path: Path | str | None) -> Path | None:
    """Return the socket of the newest daemon that has recorded itself and answers, where no socket is named. It may
    take seconds if a daemon is busy."""
    if path or os.environ.get(SOCKET_VARIABLE):
        return None
    from tooltap.daemon.system.running_daemons import recorded

    return next((Path(one.socket) for one in recorded() if _greets(one.socket, one.journal)), None)


def pauses(wait: float) -> Iterator[float]:
    """Yield the seconds to sleep before each new attempt to reach a daemon that is away, for `wait` seconds in all."""
    end, pause = time.monotonic() + wait, RETRY_FIRST
    while (left := end - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 2, RETRY_MOST)


def connect(connection: socket.socket, path: str) -> None:
    """Connect a blocking socket. If the daemon's queue is full, `connect` fails immediately on a socket with a
    timeout instead of waiting, so this waits up to that timeout. Raises `OSError`."""
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
