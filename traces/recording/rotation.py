"""One trace on disk, bounded in size: full files are rotated, and the oldest files are removed.

The newest records are in the file that the trace is named after. When it is full, it is renamed with the next number:
`t.0001.jsonl` is older than `t.0002.jsonl`, which is older than `t.jsonl`. A shell lists them in the same order.

No file of the trace grows beyond `file_bytes`, and all files that share its budget (`budgeted`) together stay
within `total_bytes`. The bound holds at all times because room for a whole file is made before a new file is started,
rather than when the budget is exceeded.

Several daemons may write to the same folder. Each writer holds a shared `flock` on its file, and a file is removed only
under an exclusive one, so no process removes a file that another process is writing to. The kernel releases the lock
when a process dies, so there are no stale locks.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import stat
from collections.abc import Iterable
from glob import escape
from pathlib import Path

from tooltap.traces.recording.own_file import open_own, open_special, without_planted_links

GENERATED = "tooltap-*-pid-*.jsonl"
"""Names that `writer.trace_path` generates. Other files in the folder are never counted or removed."""
NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<number>\d{4,})(?P<suffix>\.[^.]*)?")


def parts(path: Path) -> list[Path]:
    """The existing files of a trace, oldest first. A rotated file is a part by itself."""
    return _rotated(path) + [path] * path.exists()


def next_rotated(path: Path) -> Path:
    """The name that the full file gets when the trace is rotated."""
    rotated = _rotated(path)
    last = _split(rotated[-1])[1] if rotated else 0
    return path.with_name(f"{path.stem}.{last + 1:04}{path.suffix}")


def _rotated(path: Path) -> list[Path]:
    """The rotated files of a trace, oldest first."""
    found = [(_split(other), other) for other in path.parent.glob(f"{escape(path.stem)}.*")]
    return [other for (trace, number), other in sorted(found) if trace == path and number]


def _split(path: Path) -> tuple[Path, int]:
    """The trace that a file is a part of, and the part's number; 0 for the newest part, which has no number."""
    found = NUMBERED.fullmatch(path.name)
    if found is None:
        return path, 0
    return path.with_name(found["stem"] + (found["suffix"] or "")), int(found["number"])


def budgeted(path: Path) -> list[Path]:
    """The files that share the size budget of this trace: its own parts and, if tooltap generated its name, all traces
    with generated names in the folder."""
    others = path.parent.glob(GENERATED) if path.match(GENERATED) else ()
    return sorted({*parts(path), *others})


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files of the named traces and folders of traces, each once, the parts of one trace together and oldest first.

    Raises `FileNotFoundError` for a path that does not exist, and for a folder without a trace.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            in_folder = {_split(file)[0] for file in path.glob("*.jsonl")}
            found = [part for trace in sorted(in_folder) for part in parts(trace)]
        else:
            found = parts(path)
        if not found:
            raise FileNotFoundError(
                2, "no trace in this folder" if path.is_dir() else "No such file or directory", str(path)
            )
        files += found
    traces = [_split(file)[0] for file in files]
    return sorted({*files}, key=lambda file: (traces.index(_split(file)[0]), _split(file)[1] or math.inf))


SHARE = 4
"""A file takes at most 1/SHARE of the budget, so that removing the oldest file leaves most of the trace."""


class RotatingFile:
    """Touches the disk only in `write`. After `write` has raised `OSError`, the next `write` reopens the file."""

    def __init__(self, path: Path, file_bytes: int, total_bytes: int) -> None:
        self.path = path
        self.file_bytes = min(file_bytes, total_bytes // SHARE)
        """The size limit of a file, and of the data passed to one `write`."""
        self.rotated = 0
        self.removed = 0
        self.others = 0
        """Bytes of the other files that share the budget."""
        self.size = 0
        self._total_bytes = total_bytes
        self._file: int | None = None
        self._rotates = True

    def write(self, data: bytes) -> None:
        """Append whole records of at most `file_bytes` in total."""
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
        if self._file is not None and self._is_at_path(self._file):
            return self._file
        self.close()
        os.makedirs(os.path.dirname(without_planted_links(self.path)), mode=0o700, exist_ok=True)
        file = open_special(self.path, os.O_RDWR | os.O_APPEND)
        if file is None:
            file = open_own(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            about = os.fstat(file)
            self._rotates = stat.S_ISREG(about.st_mode)  # a pipe or a device cannot be rotated
            self.size = 0
            if self._rotates:
                _lock(file)
                self.size = about.st_size + _end_torn_record(file, about.st_size)
                self._make_room()
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file

    def _is_at_path(self, file: int) -> bool:
        """Return False if the file was removed or renamed."""
        try:
            return not self._rotates or os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        os.rename(self.path, next_rotated(self.path))
        self.rotated += 1
        self.close()

    def _make_room(self) -> None:
        """Remove the oldest other files until this file can grow to its full size within the budget."""
        sizes = {}
        for path in budgeted(self.path):
            try:
                about = os.lstat(path)
            except FileNotFoundError:  # another process made room at the same time
                continue
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():  # others could take all room with theirs
                sizes[path] = about
        sizes.pop(self.path, None)
        self.others = sum(one.st_size for one in sizes.values())
        for path, about in sorted(sizes.items(), key=lambda one: (one[1].st_mtime_ns, one[0])):
            if self.others + max(self.file_bytes, self.size) <= self._total_bytes:
                return
            if _remove(path):
                self.others -= about.st_size
                self.removed += 1


def _end_torn_record(file: int, size: int) -> int:
    """Write a newline after a torn record of a killed process, so that the first new record starts its own line.

    Returns the number of bytes written.
    """
    return os.write(file, b"\n") if size and os.pread(file, 1, size - 1) != b"\n" else 0


def _lock(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # a file system without locks
        pass


def _remove(path: Path) -> bool:
    try:
        file = open_own(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:  # locked by its writer, or not removable
        return False
    finally:
        os.close(file)
    return True
