"""Registry of this user's running daemons: each writes a record to the user's data directory, where any program can
find it.

A program with a filtered environment looks for the socket in another folder than the daemon does; both know the user's
home. A daemon locks its record while it lives, so an unlocked record is stale, and is removed by any reader. Records
are private, and those of other users are not read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import msgspec

from tooltap.daemon.system.paths import daemon_folders
from tooltap.traces.recording.own_file import open_own, private_folder, why_unsteady

SUFFIX = ".json"
MAX_BYTES = 16_384
MAX_RECORDS = 100
"""Most records that are read: more daemons than anybody runs."""


class RunningDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a record."""

    socket: str
    """Absolute path of the socket, without symbolic links."""
    page: str | None = None
    """URL of the web page, `http://HOST:PORT`."""
    pid: int
    started: int
    """Start of the daemon in ms since the epoch."""
    journal: str
    """Id of the journal; the daemon's greeting must state the same."""
    version: str


class Record:
    """The record of this process, from its creation until `close`. Raises `OSError`."""

    def __init__(self, daemon: RunningDaemon) -> None:
        folder = daemon_folders()[0]
        self._path = os.path.join(folder, f"{daemon.pid}-{daemon.started}{SUFFIX}")
        self._descriptor = -1
        self.write(daemon)

    def write(self, daemon: RunningDaemon) -> None:
        """Write or update the record. Raises `OSError`."""
        private_folder(os.path.dirname(self._path))
        beside = f"{self._path}.new"
        with suppress(FileNotFoundError):
            os.unlink(beside)
        descriptor = open_own(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with suppress(OSError):  # a file system without locks: the greeting says whether the daemon lives
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, msgspec.json.encode(daemon))
            os.rename(beside, self._path)  # complete and locked from the moment at which it is seen
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(beside)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor

    def is_in_place(self) -> bool:
        """Return False if the record was removed, renamed or replaced. Raises `OSError`."""
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(self._descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def recorded() -> list[RunningDaemon]:
    """Return the running daemons, newest first. Removes stale records of killed ones."""
    found = [one for folder in daemon_folders() for path in _records(folder) for one in _read(path)]
    return sorted(found, key=lambda one: one.started, reverse=True)


def _records(folder: str) -> list[str]:
    try:
        status = os.stat(folder)
        if status.st_uid != os.geteuid() or why_unsteady(status) is not None:
            return []
        with os.scandir(folder) as entries:
            names = sorted(one.name for one in entries if one.name.endswith(SUFFIX))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names[-MAX_RECORDS:]]


def _read(path: str) -> Iterator[RunningDaemon]:
    try:
        descriptor = open_own(path, os.O_RDONLY)
    except OSError:  # its daemon has just ended, or another user has put it there
        return
    try:
        found = msgspec.json.decode(os.read(descriptor, MAX_BYTES), type=RunningDaemon)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            os.unlink(path)  # nobody holds it
    except BlockingIOError:
        yield found
    except (OSError, msgspec.MsgspecError):  # not one of ours, or it cannot be removed
        pass
    finally:
        os.close(descriptor)
