"""Files of lines: opened by path or `-`, read in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator

__all__ = ["STDIN", "UnreadableError", "input_size", "read_chunks"]

STDIN = "-"
CHUNK = 256 * 1024


class UnreadableError(Exception):
    """The file cannot be opened or read; the message says which and why."""


def read_chunks(path: str) -> Iterator[bytes]:
    """The file's bytes as they come, so that a pipe's are handed on at once. Raises `UnreadableError`."""
    try:
        with open(0 if path == STDIN else path, "rb", buffering=0, closefd=path != STDIN) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None


def input_size(path: str) -> int:
    """Bytes of a regular file; 0 for what has no size."""
    try:
        return 0 if path == STDIN else os.stat(path).st_size
    except OSError:
        return 0
