"""Opens and reads files for display tools: text, whole or a range of lines, and images; with MIME type and language.

Only files in the folders that the user allowed are shown. An MCP client may name folders of its own ("roots"); they
only narrow what the user allowed. Against races (TOCTOU), resolving a path only determines a name; the file is then
opened relative to the allowed folder without following links or `..`, even if folders and links are moved meanwhile.
`openat2` (Linux 5.6) does so in one step. Without it, each component is opened relative to the one before it.
"""

from __future__ import annotations

import errno
import mimetypes
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import unquote, urlsplit


class NotShownError(Exception):
    """The file is not shown; the message is a predicate with the reason ("is not a file"). `denied`: it is outside of
    the allowed folders."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Opened(NamedTuple):
    """An open file."""

    file: IO[bytes]
    path: str
    """Path for display: relative to the first folder, else absolute."""


class Roots:
    """The allowed folders. `folders` must exist; relative paths are resolved in the first. Keeps the folders open until
    closed: files are opened below these descriptors, even if folders are renamed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [Path(os.path.realpath(folder)) for folder in folders]
        self._descriptors = [open_folder(folder) for folder in self.folders]

    def close(self) -> None:
        for one in self._descriptors:
            os.close(one)
        self._descriptors = []

    @contextmanager
    def open(self, path: str, narrowed_to: Sequence[Path] | None = None) -> Iterator[Opened]:
        """Open the regular file at `path`. Raises `NotShownError`."""
        try:
            folder, found = self._resolve(path, narrowed_to)
            # The resolved path has no links. One that is there by now was put there since, and is not followed.
            descriptor = open_beneath(self._descriptors[folder], found.relative_to(self.folders[folder]).parts)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise NotShownError(f"cannot be opened: {reason}") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotShownError("is not a file")
        first = self.folders[0]
        with open(descriptor, "rb") as file:
            yield Opened(file, str(found.relative_to(first) if found.is_relative_to(first) else found))

    def _resolve(self, path: str, narrowed_to: Sequence[Path] | None) -> tuple[int, Path]:
        """Return the index of the folder that contains the file, and the path without links."""
        found = Path(os.path.realpath(self.folders[0] / path))
        folder = next((number for number, one in enumerate(self.folders) if found.is_relative_to(one)), None)
        if folder is None:
            raise NotShownError("is outside of the folders the user allowed", denied=True)
        if narrowed_to is not None and not any(found.is_relative_to(os.path.realpath(one)) for one in narrowed_to):
            raise NotShownError("is outside of the folders this client works in", denied=True)
        return folder, found


def folder_of_uri(uri: str) -> Path | None:
    """Return the folder of a root; None if it is not a `file:` URI."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.path else None


CHUNK = 65_536
_IMAGES = {".avif": "image/avif", ".heic": "image/heic", ".webp": "image/webp"}
"""Image types that `mimetypes` lacks before Python 3.13."""


class Body(NamedTuple):
    data: bytes
    mime_type: str
    language: str | None = None


def read_text(file: IO[bytes], path: str, first: int, last: int | None, max_bytes: int) -> Body:
    """Read lines `first` (from 1) to `last` (None: to the end). Invalid UTF-8 is replaced. Raises `NotShownError`."""
    if last is not None and last < first:
        raise NotShownError(f"has no line {last} after line {first}")
    _skip_lines(file, first - 1)
    data = _read_lines(file, None if last is None else last - first + 1, max_bytes + 1)
    if len(data) > max_bytes:
        raise NotShownError(f"has more than {max_bytes} bytes to show; ask for fewer lines")
    if b"\0" in data:
        raise NotShownError("is not a text file")
    if first > 1 and not data:
        raise NotShownError(f"has no line {first}")
    mime_type, language = _kind_of_text(path)
    return Body(data.decode(errors="replace").encode(), mime_type, language)


def read_image(file: IO[bytes], path: str, max_bytes: int) -> Body:
    """Read an image. Raises `NotShownError`."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    mime_type = _IMAGES.get(suffix) or mimetypes.guess_type(path)[0] or ""
    if not mime_type.startswith("image/"):
        raise NotShownError("is not an image")
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise NotShownError(f"is longer than {max_bytes} bytes")
    return Body(data, mime_type)


def _skip_lines(file: IO[bytes], lines: int) -> None:
    while lines > 0 and (part := file.readline(CHUNK)):
        lines -= part.endswith(b"\n")


def _read_lines(file: IO[bytes], lines: int | None, limit: int) -> bytes:
    if lines is None:
        return file.read(limit)
    data = bytearray()
    while lines > 0 and len(data) < limit and (part := file.readline(limit - len(data))):
        data += part
        lines -= part.endswith(b"\n")
    return bytes(data)


def _kind_of_text(path: str) -> tuple[str, str | None]:
    """Return MIME type and language of a text file. `mimetypes` is no use for source code: to it, `.ts` is a video."""
    from pygments.lexers import find_lexer_class_for_filename  # a heavy import, only for text files

    lexer = find_lexer_class_for_filename(path)
    if lexer is None:
        return "text/plain", None
    return next(iter(lexer.mimetypes), "text/plain"), next(iter(lexer.aliases), None)


# -- opening below a folder -------------------------------------------------------------------------------------------

FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags for opening a file. `O_NONBLOCK`: a pipe in its place must not block."""

_OPENAT2 = 437
_NUMBERED_SO = {"aarch64", "armv7l", "i686", "loongarch64", "ppc64le", "riscv64", "s390x", "x86_64"}
"""Machines on which `openat2` is known to have the same system call number."""
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


class Unknown(Exception):
    """The system has no `openat2`, or a sandbox blocks it."""


def open_folder(path: str | os.PathLike[str]) -> int:
    """Open a folder, to open files below it. Raises `OSError`."""
    return os.open(path, FOLDER)


def open_beneath(folder: int, parts: Sequence[str]) -> int:
    """Open the file with this path below the folder, for reading. Raises `OSError`, `ELOOP` for a link."""
    try:
        return open_in_one_step(folder, parts)
    except Unknown:
        return open_step_by_step(folder, parts)


def open_in_one_step(folder: int, parts: Sequence[str]) -> int:
    """Open the file with `openat2`. Raises `Unknown` and `OSError`."""
    if sys.platform != "linux" or os.uname().machine not in _NUMBERED_SO:
        raise Unknown
    import ctypes  # only when a file is opened

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    how = How(FILE, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    path = os.fsencode(os.path.join(*parts) if parts else ".")
    call = ctypes.CDLL(None, use_errno=True).syscall
    while True:
        descriptor = call(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor >= 0:
            return int(descriptor)
        if (code := ctypes.get_errno()) in (errno.ENOSYS, errno.EPERM):
            raise Unknown
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def open_step_by_step(folder: int, parts: Sequence[str]) -> int:
    """Open each component in the one before it. Raises `OSError`."""
    held: list[int] = []
    try:
        for part in parts[:-1]:
            folder = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            held.append(folder)
        return os.open(parts[-1] if parts else ".", FILE, dir_fd=folder)
    finally:
        for one in held:
            os.close(one)
