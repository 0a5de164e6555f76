"""One trace on disk, kept bounded: appended to, put away when it is full, the oldest removed when all are too much.

No file of the trace grows beyond `file_bytes`, and all files that share its budget (`files.budgeted`) stay within
`total_bytes` together: before a new file is begun, room is made for a whole one. A file that another process writes to
is never removed: each writer holds a shared lock on its own, which ends with the process.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from tooltap.traces.recording.files import budgeted, next_rotated

__all__ = ["RotatingFile"]

SHARE = 4
"""A file takes at most this part of the budget: when the oldest goes, most of the trace is still there."""


class RotatingFile:
    """Made without touching the disk. `write` raises `OSError`, after which the file is opened again by the next."""

    def __init__(self, path: Path, file_bytes: int, total_bytes: int) -> None:
        self.path = path
        self.file_bytes = min(file_bytes, total_bytes // SHARE)
        """Longest data that can be written at once, and longest file."""
        self.rotated = 0
        self.removed = 0
        self.others = 0
        """Bytes of the other files of the budget."""
        self.size = 0
        self._total_bytes = total_bytes
        self._file: int | None = None
        self._rotates = True

    def write(self, data: bytes) -> None:
        """Append whole records, `file_bytes` at most."""
        file = self._open()
        if self._rotates and self.size and self.size + len(data) > self.file_bytes:
            self._rotate()
            file = self._open()
        written = 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
        finally:
            self.size += written
            if written < len(data):
                self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is not None and self._is_still_there(self._file):
            return self._file
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            about = os.fstat(file)
            self._rotates = stat.S_ISREG(about.st_mode)  # a pipe or a device is as it is
            self.size = 0
            if self._rotates:
                _lock(file)
                self.size = about.st_size + _mend(file, about.st_size)
                self._make_room()
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file

    def _is_still_there(self, file: int) -> bool:
        """False when somebody has removed it, or put it away."""
        try:
            return not self._rotates or os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        os.rename(self.path, next_rotated(self.path))
        self.rotated += 1
        self.close()

    def _make_room(self) -> None:
        """Remove the oldest other files until this one may grow to its full length."""
        sizes = {}
        for path in budgeted(self.path):
            try:
                sizes[path] = os.stat(path)
            except FileNotFoundError:  # another process makes room, too
                continue
        sizes.pop(self.path, None)
        self.others = sum(one.st_size for one in sizes.values())
        for path, about in sorted(sizes.items(), key=lambda one: (one[1].st_mtime_ns, one[0])):
            if self.others + max(self.file_bytes, self.size) <= self._total_bytes:
                return
            if _remove(path):
                self.others -= about.st_size
                self.removed += 1


def _mend(file: int, size: int) -> int:
    """End a torn record that a killed process left, so that it does not swallow our first one."""
    return os.write(file, b"\n") if size and os.pread(file, 1, size - 1) != b"\n" else 0


def _lock(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # a file system without locks
        pass


def _remove(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:  # in use, or not ours to remove
        return False
    finally:
        os.close(file)
    return True
