"""Reads input files named on the command line, in chunks; `-` is standard input."""

from __future__ import annotations

import os
from collections.abc import Iterator

__all__ = ["STDIN", "UnreadableError", "input_size", "read_chunks"]

STDIN = "-"
CHUNK = 256 * 1024


class UnreadableError(Exception):
    """The file cannot be opened or read; the message says which and why."""


def read_chunks(path: str) -> Iterator[bytes]:
    """Yield the file's bytes as they arrive, so that a pipe is processed without delay. Raises `UnreadableError`."""
    try:
        with open(0 if path == STDIN else path, "rb", buffering=0, closefd=path != STDIN) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except IsADirectoryError:
        raise UnreadableError(f"{path}: there is no .jsonl file in this folder") from None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None


def input_size(path: str) -> int:
    """The size of a regular file in bytes; 0 for everything else."""
    try:
        return 0 if path == STDIN else os.stat(path).st_size
    except OSError:
        return 0
