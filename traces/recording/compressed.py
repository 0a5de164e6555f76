"""Files that an agent has compressed with Zstandard (`.jsonl.zst`), read as the bytes that they hold.

Decompression only goes forward, so the decompressor of a file that is read part by part is kept until the next part is
wanted. What a file may cost is bounded: the memory of a decompressor, and the bytes that come out of a file.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Iterator
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import zstandard
    from _typeshed import WriteableBuffer

SUFFIX = ".zst"
MAX_BYTES = 4 * 2**30
"""Most bytes that are read of one file: a small file may be made to yield any number."""
WINDOW_BYTES = 2**27
"""Most memory for what a frame may refer back to; the usual limit of programs that decompress."""
BLOCK = 1024 * 1024
KEPT = 4
"""Maximum number of decompressors that are kept, each with an open file."""


def is_compressed(path: str) -> bool:
    return path.endswith(SUFFIX)


def plain_path(path: str) -> str:
    """Return the path that a file had before it was compressed."""
    return path.removesuffix(SUFFIX)


class Decompressor:
    """Reads an open file, which it owns, from its beginning. Raises `OSError`, also for what is not Zstandard."""

    def __init__(self, file: FileIO) -> None:
        import zstandard  # costs a command that reads no such file more than all the rest of this module

        self._file = file
        self._error: type[zstandard.ZstdError] = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).stream_reader(
            file, read_across_frames=True
        )
        self.offset = 0
        """Number of bytes that were read."""

    def read(self, size: int) -> bytes:
        """Return the next bytes: `size`, or fewer at the end."""
        parts: list[bytes] = []
        while size > 0:
            try:
                part = self._reader.read(min(size, BLOCK))
            except self._error as error:
                raise OSError(errno.EIO, f"cannot be decompressed: {error}") from error
            if not part:
                break
            self.offset += len(part)
            if self.offset > MAX_BYTES:
                raise OSError(errno.EFBIG, f"holds more than {MAX_BYTES} bytes")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes in blocks."""
        while size > 0 and (block := self.read(min(size, BLOCK))):
            size -= len(block)
            yield block

    def close(self) -> None:
        self._file.close()


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading; a compressed one yields the bytes that it holds. What it returns raises `OSError` with
    the file's name."""
    return BufferedReader(_Decompressed(path), BLOCK) if is_compressed(path.name) else open(path, "rb")


class _Decompressed(RawIOBase):
    """The bytes that a compressed file holds, as an open file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decompressor = Decompressor(FileIO(path))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer) as view:
            try:
                data = self._decompressor.read(len(view))
            except OSError as error:
                error.filename = str(self._path)
                raise
            view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._decompressor.close()
        super().close()


class Decompressors:
    """Decompressors of files that are read part by part, by file and offset. May be used in several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Decompressor] = OrderedDict()
        self._lock = Lock()

    def take(self, identity: object, offset: int) -> Decompressor | None:
        """Return the decompressor of this state of a file that has read up to `offset`. It is no longer kept."""
        with self._lock:
            return self._kept.pop((identity, offset), None)

    def keep(self, identity: object, decompressor: Decompressor) -> None:
        """Keep a decompressor for the next part, in place of the one that was kept longest."""
        with self._lock:
            self._kept[identity, decompressor.offset] = decompressor
            oldest = self._kept.popitem(last=False)[1] if len(self._kept) > KEPT else None
        if oldest is not None:
            oldest.close()


def identity_of(status: os.stat_result) -> object:
    """Return a value that differs for another file, and for another state of it."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
