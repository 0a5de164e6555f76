"""Runs a program for what it prints at once: bounded in time and in what is read, and nothing of it is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Printed", "run_briefly"]

MOST = 65_536
"""Bytes that are read."""


class Printed(NamedTuple):
    text: str
    """Standard output and standard error."""
    code: int | None
    """None if it did not end by itself."""


def run_briefly(command: Sequence[str], seconds: float) -> Printed:
    """Standard input is empty. After `seconds` it is killed, with the children that it has not put into a session of
    their own. Raises `OSError` if it cannot be started."""
    deadline = time.monotonic() + seconds
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        text = _read(output.fileno(), deadline)
        try:
            code = process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it has ended; macOS refuses where only its corpse is left
            pass
        process.wait()
    return Printed(text.decode(errors="replace"), code)


def _read(output: int, deadline: float) -> bytes:
    text = b""
    while len(text) < MOST and select.select([output], [], [], max(deadline - time.monotonic(), 0))[0]:
        data = os.read(output, MOST)
        if not data:
            break
        text += data
    return text[:MOST]
