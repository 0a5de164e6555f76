"""Reads files for display tools: text, whole or a range of lines, and images; with their MIME type and language."""

from __future__ import annotations

import mimetypes
from typing import IO, NamedTuple

from tooltap.daemon.taps.mcp.roots import NotShownError

__all__ = ["Body", "read_image", "read_text"]

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
