"""Files of lines: opened by path or `-`, read in pieces, named as streams."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["STDIN", "UnreadableError", "input_size", "read_chunks", "recording_id", "stream_name"]

STDIN = "-"
CHUNK = 256 * 1024
MAX_NAME = 180
"""Leaves room for `~<hash>` within the 200 characters of a stream id."""


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


def stream_name(path: str) -> str:
    """The base name without its extension, in the characters a stream id may have."""
    name = "stdin" if path == STDIN else Path(path).stem
    return re.sub(r"[^A-Za-z0-9._~-]", "-", name)[:MAX_NAME] or "stream"


def recording_id(path: str) -> str:
    """The stream id of a file fed to the daemon: the same file again is the same stream, a namesake is another."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    return f"{stream_name(path)}~{digest[:12]}"
