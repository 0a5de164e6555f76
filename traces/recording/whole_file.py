"""Atomic file writes: a temporary file beside the target is written, synced, and renamed to it.

A writer that is killed leaves the old file, or none. Its temporary file, which has a hidden name, stays until the next
writer of the same target removes it: it is not locked, so nobody writes to it any more.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from tooltap.traces.recording.own_file import open_special, without_planted_links

SUFFIX = ".part"
MAX_NAME = 150
"""Maximum bytes of the target's name in the temporary one: file systems allow 255 in all."""


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a whole file atomically. Raises `OSError`."""
    with whole_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def whole_file(path: Path, mode: int | None = None, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write, which replaces the target when the block ends without an exception. Raises `OSError`.

    `mode`: its permissions; default: those of the file that it replaces, else what the user's umask says. With
    `replace` False, a file that exists by then is kept. A symbolic link stays one, and its target is replaced, unless
    another user may have made the link. A terminal, a pipe or `/dev/null` is written to directly.
    """
    existing = _status(path)
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        special = open_special(path, os.O_WRONLY)
        with open(path if special is None else special, "wb") as file:
            yield file
        return
    place = Path(without_planted_links(path))
    if mode is None and existing is not None and existing.st_uid == os.geteuid():
        mode = stat.S_IMODE(existing.st_mode)
    descriptor, beside = _create(place, 0o666 if mode is None else 0o600)
    try:
        with open(descriptor, "wb") as file:  # closing it releases the lock
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(descriptor)
            if replace:
                os.replace(beside, place)
            else:
                with suppress(FileExistsError):
                    os.link(beside, place)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, as far as its file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _status(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except FileNotFoundError:
        return None


def _create(place: Path, mode: int) -> tuple[int, Path]:
    """Create and lock a temporary file beside the target. Removes those that killed writers left there."""
    name = f".{os.fsdecode(os.fsencode(place.name)[:MAX_NAME])}"
    for left in place.parent.glob(f"{escape(name)}.*{SUFFIX}"):
        _remove_left(left)
    beside = place.with_name(f"{name}.{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")
    while True:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, beside
        os.close(descriptor)  # another writer took it for one that was left, between the two calls above


def _remove_left(path: Path) -> None:
    with suppress(OSError):  # in use, or gone
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
