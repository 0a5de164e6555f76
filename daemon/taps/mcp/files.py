"""Opens and reads files for display tools: text, whole or a range of lines, and images; with MIME type and language.

Only files in the folders that the user allowed are shown. An MCP client may name folders of its own ("roots"); they
narrow what the user allowed and never widen it. To resolve a path only finds its name; what is opened is opened below
the folder (`safe_open.py`).
"""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import unquote, urlsplit

from tooltap.daemon.taps.mcp.safe_open import open_beneath, open_folder


class NotShownError(Exception):
    """The file is not shown; the message is a predicate that says why ("is not a file"). `denied`: it is outside of the
    allowed folders."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Opened(NamedTuple):
    """An open file."""

    file: IO[bytes]
    path: str
    """For clients: relative to the first folder, or else absolute."""


class Roots:
    """`folders` must exist. Relative paths are resolved in the first. Holds the folders open until it is closed: files
    are opened below these, whatever is renamed since."""

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
        """Return the number of the folder that the file is in, and the path without links."""
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
"""Unknown to `mimetypes` before Python 3.13."""


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
    """Return MIME type and language. `mimetypes` does not help with source code: it takes `.ts` for a video."""
    from pygments.lexers import find_lexer_class_for_filename  # a heavy import, only for text files

    lexer = find_lexer_class_for_filename(path)
    if lexer is None:
        return "text/plain", None
    return next(iter(lexer.mimetypes), "text/plain"), next(iter(lexer.aliases), None)
