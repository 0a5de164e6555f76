"""The daemon's Unix socket: one daemon per socket, for its own user only.

An advisory lock on `<socket>.lock` decides who may listen: two daemons that start at once cannot both win. The socket
of a killed daemon is replaced; anything else in its place is the user's or another program's, and stays. The socket is
bound under a temporary name and renamed into place once it listens: when it becomes visible, it accepts connections and
is private.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tooltap.daemon.system.shell import shell_line
from tooltap.traces.recording.own_file import LockedError, NotOursError, lock_own, steady_folder

BACKLOG = 1_024
"""Length of the accept queue. It is long because a non-blocking client mistakes a full queue for an open connection."""

MAX_PATH = 103 if sys.platform == "darwin" else 107
"""Bytes of `sun_path` without its terminating NUL."""


class ListenError(Exception):
    """The daemon cannot listen; the message is one sentence for the user."""


class Listener:
    """Holds the lock and the listening socket until it is closed. Raises `ListenError`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        _steady_directory(self.path.parent)
        self._lock = _take_lock(self.path)
        try:
            self._listen()
        except ListenError:
            os.close(self._lock)
            raise

    def _listen(self) -> None:
        try:
            _check_place(self.path)
            self.socket = _listening_at(self.path)
            self._ours = os.lstat(self.path)
        except OSError as error:
            raise ListenError(f"cannot listen at {self.path}: {error.strerror or error}") from error

    def renew(self) -> socket.socket | None:
        """Listen again if the socket was removed or renamed, as programs do that clean up folders like `/tmp`. Returns
        the previous socket, for the caller to close; None if nothing has happened. Raises `ListenError`."""
        if _is_at(self.path, self._ours):
            return None
        if not _is_at(_lock_path(self.path), os.fstat(self._lock)):
            _steady_directory(self.path.parent)
            lock = _take_lock(self.path)
            os.close(self._lock)
            self._lock = lock
        previous = self.socket
        self._listen()
        return previous

    def close(self) -> None:
        """Remove the socket, then release the lock for the next daemon."""
        try:
            if os.path.samestat(os.lstat(self.path), self._ours):
                self.path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:  # the next daemon replaces it
            from tooltap.daemon.system.logs import get_logger  # whoever only needs to know a path does not wait for it

            get_logger("socket").warning("the socket cannot be removed", socket=str(self.path), reason=error.strerror)
        self.socket.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_at(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False


def _steady_directory(path: Path) -> None:
    """Make sure that no other user can replace the socket. A directory created here is private. If others may read an
    existing one, the socket's mode and the check of the peer's uid keep them out."""
    try:
        steady_folder(path)
    except NotOursError as error:
        advice = f"run {shell_line('chmod', 'go-w', path)}, or choose another place for the socket"
        raise ListenError(f"the socket cannot be in {path}: {error.strerror}; {advice}") from None
    except OSError as error:
        raise ListenError(f"cannot use the directory {path}: {error.strerror}") from error


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _take_lock(path: Path) -> int:
    lock_path = _lock_path(path)
    try:
        return lock_own(lock_path)
    except LockedError as error:
        pid = f" (pid {error})" if str(error) else ""
        raise ListenError(f"a daemon{pid} is already listening at {path}") from None
    except NotOursError as error:
        advice = "move it away or choose another place for the socket"
        raise ListenError(f"{lock_path} cannot be the socket's lock: {error.strerror}; {advice}") from None
    except OSError as error:
        raise ListenError(f"cannot lock {lock_path}: {error.strerror}") from error


def _check_place(path: Path) -> None:
    """Check that the path is free, or has the stale socket of a killed daemon. Raises `ListenError` and `OSError`."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ListenError(f"{path} is not a socket; move it away or choose another place for the socket")
    if is_listening(str(path)):
        raise ListenError(f"another program is listening at {path}; choose another place for the socket")


def is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        attempt.setblocking(False)
        try:
            attempt.connect(path)
        except BlockingIOError:  # its queue is full
            return True
        except (OSError, ValueError):  # nobody listens there, or nobody can
            return False
    return True


def listening_pid(path: str) -> int | None:
    """The process that has begun to listen at a path; None if nobody listens there, or the system does not say."""
    if sys.platform != "linux":
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        attempt.setblocking(False)
        try:
            attempt.connect(path)
            return _credentials(attempt)[0] or None
        except (OSError, ValueError):
            return None


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """The process, user and group at the other end, on Linux."""
    found: tuple[int, int, int] = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return found


def _listening_at(path: Path) -> socket.socket:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    for place in (path, temporary):
        if (length := len(os.fsencode(place))) > MAX_PATH:
            raise OSError(f"the path of a socket may have {MAX_PATH} bytes, this one has {length}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):  # of a killed daemon with the same process id
            if stat.S_ISSOCK(os.lstat(temporary).st_mode):
                temporary.unlink()
        listening.bind(str(temporary))
    except OSError:
        listening.close()
        raise
    try:
        os.chmod(temporary, 0o600)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        os.replace(temporary, path)
    except OSError:
        listening.close()
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return listening


def peer_uid(connection: socket.socket) -> int:
    """The user id at the other end of a Unix socket."""
    if sys.platform == "linux":
        return _credentials(connection)[1]
    # macOS and the BSDs: `struct xucred` begins with cr_version and cr_uid; SOL_LOCAL is 0, LOCAL_PEERCRED is 1.
    return int(struct.unpack("2I", connection.getsockopt(0, 1, 1024)[:8])[1])
