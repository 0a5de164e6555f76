"""Reads the sessions of an agent that are folders of files, each as a document that is made of them.

The agent's reader (`catalog/dialect.py`) knows the files. The agent may delete one that another names, because there is
a newer one; then the document is made again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from tooltap.daemon.taps.follow.reading import Chunk, Found, Position, opened, position_after, read_from, read_head
from tooltap.normalizers.catalog.dialect import FolderReader

ATTEMPTS = 3
BLOCK = 1024 * 1024


class SessionFolders:
    """Folders of sessions. The path of a session is that of its first file (`FolderReader.files`)."""

    def __init__(self, reader: FolderReader) -> None:
        self._reader = reader

    def session_of(self, path: str) -> str | None:
        """Return the path of the session that a file may be of; None if it changes with none."""
        folder, name = os.path.split(path)
        above, inner = os.path.split(folder)
        main, *others = self._reader.files
        if name in others:
            return os.path.join(folder, main)
        return os.path.join(above, main) if f"{inner}/" in others else None

    def look_at(self, path: str) -> Found:
        """Return the state of a session: what its files have together, and their last change. Raises `OSError`."""
        folder = os.path.dirname(path)
        status = os.lstat(path)
        size, mtime = status.st_size, status.st_mtime_ns
        for one in _listed(folder, self._reader.files[1:]):
            try:
                status = os.lstat(one)
            except FileNotFoundError:
                continue
            size, mtime = size + status.st_size, max(mtime, status.st_mtime_ns)
        return Found(path, size, mtime)

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """Return the document, and the time of the last change in ms since the epoch; of one that has more than `limit`
        bytes, at least as many. Raises `OSError`."""
        for attempt in range(ATTEMPTS):
            mtime = self.look_at(path).mtime_ms
            try:
                return self._reader.document(_Folder(os.path.dirname(path), limit)), mtime
            except _AboveLimitError:
                return bytes(limit + 1), mtime
            except FileNotFoundError as error:
                if not os.path.lexists(path):  # the session has been deleted
                    raise
                if attempt == ATTEMPTS - 1:
                    reason = f"a file that this session names is missing: {error.filename}"
                    raise OSError(errno.EINVAL, reason, path) from error
            except (LookupError, TypeError, ValueError) as error:
                raise OSError(errno.EINVAL, f"not a session of a known form: {error!r}", path) from error
        raise AssertionError("the last attempt returns or raises")

    def position_after(self, path: str, offset: int, crc: int | None) -> Position:
        return position_after(path, offset, crc)

    def read_from(self, path: str, position: Position, limit: int) -> Chunk:
        return read_from(path, position, limit)


class _AboveLimitError(Exception):
    """The files have more bytes than are read."""


class _Folder:
    """Implements `Folder`."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._left = limit

    def read(self, name: str) -> bytes:
        data = read_head(self._inside(name), self._left + 1)[0]
        self._take(len(data))
        return data

    def lines(self, name: str, end: bytes) -> Iterator[bytes]:
        with opened(self._inside(name)) as (descriptor, _), open(descriptor, "rb", BLOCK, closefd=False) as file:
            while line := file.readline(self._limit + 1):
                last = line
                while not last.endswith(b"\n") and (more := file.readline(self._limit + 1)):
                    last = last[-len(end) :] + more
                if last.endswith(end):
                    self._take(len(line))
                    yield line

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _AboveLimitError

    def _inside(self, name: str) -> str:
        """Return the path of a file that another one names. Raises `FileNotFoundError` for one that is elsewhere."""
        path = os.path.join(self._path, name)
        if os.path.realpath(path) != path or not path.startswith(f"{self._path}/"):
            raise FileNotFoundError(errno.ENOENT, "not in the session's folder", path)
        return path


def _listed(folder: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith("/"):
            yield path
            continue
        try:
            with os.scandir(path) as entries:
                yield from [entry.path for entry in entries]
        except FileNotFoundError:  # a new session
            continue
