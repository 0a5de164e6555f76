"""Announcements: files that state which agents are about to be tapped.

`run` and `proxy` start the agent first, and connect to the daemon when it prints. Meanwhile the agent may have begun
its session file, which the daemon may follow. So they write a note beside the spools, before the agent starts: the
stream that they will publish, the daemon, and the agent. That daemon defers reading files of this agent until the
stream names its session.

A note is locked by its process while that lives, so a stale note is recognized. Like every other part of a tap, it must
not delay the agent, and is optional: without it, the agent is tapped as well.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from typing import NamedTuple

from tooltap.traces.recording.own_file import open_own, private_folder

SUFFIX = ".tap"
MAX_BYTES = 4_096


class Announced(NamedTuple):
    stream: str
    agent: str
    """The command of the agent; empty if it is unknown."""
    started: int
    """Start of the agent in ms since the epoch."""
    socket: str
    """Socket of the daemon, without symbolic links; empty if the publisher names none."""


def announce(directory: str, note: Announced) -> tuple[str, int] | None:
    """Announce a stream. Return a handle for `withdraw`; None if the announcement cannot be written."""
    path = os.path.join(directory, f"{note.stream}{SUFFIX}")
    try:
        private_folder(directory)
        descriptor = open_own(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, f"{note.agent}\n{note.started}\n{note.socket}".encode(errors="surrogateescape"))
        os.rename(f"{path}.new", path)  # complete and locked from the moment at which it is seen
    except OSError:
        withdraw((f"{path}.new", descriptor))
        return None
    return path, descriptor


def withdraw(note: tuple[str, int]) -> None:
    path, descriptor = note
    try:
        os.unlink(path)
    except OSError:
        pass
    os.close(descriptor)


def announced(directory: str, socket: str) -> list[Announced]:
    """Return the announcements of running processes to the daemon with this socket. Removes stale ones."""
    try:
        with os.scandir(directory) as entries:
            paths = [one.path for one in entries if one.name.endswith(SUFFIX)]
    except OSError:
        return []
    return [one for path in paths for one in _read(path) if one.socket in ("", socket)]


def _read(path: str) -> Iterator[Announced]:
    try:
        descriptor = open_own(path, os.O_RDONLY)
    except OSError:  # it has just been withdrawn, or another user has put it there
        return
    try:
        agent, started, socket = os.fsdecode(os.read(descriptor, MAX_BYTES)).split("\n", 2)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)  # nobody holds it
    except BlockingIOError:
        yield Announced(os.path.basename(path).removesuffix(SUFFIX), agent, int(started), socket)
    except (OSError, ValueError):  # not one of ours, or it cannot be removed
        pass
    finally:
        os.close(descriptor)
