"""The daemon's Unix socket: one daemon per socket, for its own user only.

An advisory lock on `<socket>.lock` decides who may listen: two daemons that start at once cannot both win, and a socket
file left by a killed daemon is simply replaced. The socket is bound under a temporary name and renamed into place once
it listens, so that whoever sees it can connect, and it is never visible with open permissions.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["BACKLOG", "ListenError", "Listener", "peer_uid"]

BACKLOG = 1_024
"""Connections that may wait to be accepted. A non-blocking client takes a full queue for an open connection."""

MAX_PATH = 103 if sys.platform == "darwin" else 107
"""Bytes of `sun_path` without its terminating NUL."""


class ListenError(Exception):
    """The daemon cannot listen; the message is one sentence for the user."""


class Listener:
    """Holds the lock and the listening socket until it is closed. Raises `ListenError`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        _private_directory(self.path.parent)
        self._lock = _take_lock(self.path)
        try:
            self.socket = _listen(self.path)
        except OSError as error:
            os.close(self._lock)
            raise ListenError(f"cannot listen at {self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Remove the socket, then let the next daemon in."""
        self.path.unlink(missing_ok=True)
        self.socket.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _private_directory(path: Path) -> None:
    """Make sure that no other user can replace the socket. A directory created here is private. In one that others may
    read, the socket's mode and the check of the peer's uid keep them out."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise ListenError(f"cannot use the directory {path}: {error.strerror}") from error
    if status.st_uid != os.geteuid():
        raise ListenError(f"the directory {path} belongs to another user; choose another place for the socket")
    if status.st_mode & 0o022:
        raise ListenError(
            f"other users may write to the directory {path} (mode {status.st_mode & 0o7777:04o});"
            " run chmod 700 on it or choose another place for the socket"
        )


def _take_lock(path: Path) -> int:
    lock_path = path.with_name(path.name + ".lock")
    try:
        lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ListenError(f"cannot open {lock_path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        os.close(lock)
        raise ListenError(f"a daemon{f' (pid {pid})' if pid else ''} is already listening at {path}") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _listen(path: Path) -> socket.socket:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    for place in (path, temporary):
        if (length := len(os.fsencode(place))) > MAX_PATH:
            raise OSError(f"the path of a socket may have {MAX_PATH} bytes, this one has {length}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        temporary.unlink(missing_ok=True)
        listening.bind(str(temporary))
        os.chmod(temporary, 0o600)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        os.replace(temporary, path)
    except OSError:
        listening.close()
        temporary.unlink(missing_ok=True)
        raise
    return listening


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    # macOS and the BSDs: `struct xucred` begins with cr_version and cr_uid; SOL_LOCAL is 0, LOCAL_PEERCRED is 1.
    return int(struct.unpack("2I", connection.getsockopt(0, 1, 1024)[:8])[1])
