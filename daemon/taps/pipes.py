"""Reading and writing the pipes between a client and its agent. Imported before the agent is started."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import TypeAlias

STDIN, STDOUT = 0, 1
CHUNK = 65_536

Tap: TypeAlias = Callable[[bytes], None]


def read(source: int) -> bytes:
    """Read a chunk; empty at the end. Raises `BlockingIOError` if there is nothing at the moment."""
    try:
        return os.read(source, CHUNK)
    except BlockingIOError:
        raise
    except OSError:  # EIO: the other side of the terminal is closed (Linux)
        return b""


def write(target: int, data: bytes) -> bool:
    """Write all data. Return False if the reader has closed it."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:
            select.select([], [target], [])
        except OSError:
            return False
    return True


def leave(standard: int) -> None:
    """Close standard input or output, and keep its descriptor number occupied."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, standard)
    os.close(null)
