"""Starting processes: usable cores, environment, and short runs with limits on time and output."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

SAFE_PATH = "PYTHONSAFEPATH"
_users_safe_path = os.environ.get(SAFE_PATH)


def usable_cores() -> int:
    """Return how many processor cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


M_ARENA_MAX = -8
"""glibc's name of the number of arenas, in `malloc.h`."""


def share_arenas() -> None:
    """Have all threads of this process allocate from one arena. glibc gives each thread its own, and keeps what is free
    in each: 15 MB after a backfill."""
    if hasattr(library := ctypes.CDLL(None), "mallopt"):  # others than glibc have none, or no arenas
        library.mallopt(M_ARENA_MAX, 1)


PR_SET_PDEATHSIG = 1
"""Linux's number of the request, in `linux/prctl.h`."""


def die_with_parent() -> None:
    """Have Linux kill this process when its parent has died, whatever it is doing then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def import_nothing_from_here() -> None:
    """Keep Python child processes (`-m`, `-c`) from importing modules from the current folder, which may be under an
    agent's control."""
    os.environ[SAFE_PATH] = "1"


def users_environment() -> dict[str, str]:
    """Return the environment for the user's own programs: the one in which tooltap was started."""
    environment = {name: value for name, value in os.environ.items() if name != SAFE_PATH}
    return environment if _users_safe_path is None else {**environment, SAFE_PATH: _users_safe_path}


MAX_BYTES = 65_536


class Printed(NamedTuple):
    text: str
    """Standard output and standard error together."""
    code: int | None
    """Exit code; None if the program was killed."""


def run_briefly(command: Sequence[str], seconds: float) -> Printed:
    """Run a program with empty standard input. After `seconds`, it and the children in its process session are killed.
    Raises `OSError` if it cannot be started."""
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
        except (ProcessLookupError, PermissionError):  # it has ended; macOS refuses if only a zombie is left
            pass
        process.wait()
    return Printed(text.decode(errors="replace"), code)


def _read(output: int, deadline: float) -> bytes:
    text = b""
    while len(text) < MAX_BYTES and select.select([output], [], [], max(deadline - time.monotonic(), 0))[0]:
        data = os.read(output, MAX_BYTES)
        if not data:
            break
        text += data
    return text[:MAX_BYTES]
