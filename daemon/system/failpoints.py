"""Failpoints: points at which a test can kill the process as `kill -9` would; inert unless armed by the environment.

`TOOLTAP_FAILPOINT=<name>[:<n>]` kills at the n-th hit (default: the first) of the named point. The hit is first
appended to the file `TOOLTAP_FAILPOINT_LOG`, so that a test knows its point was reached. `<name>:<n>:hang` blocks the
thread there forever instead, like a disk that no longer responds.
"""

from __future__ import annotations

import os
import signal
import threading


def _configured() -> tuple[str, int, str] | None:
    name, nth, effect, *_ = (os.environ.get("TOOLTAP_FAILPOINT", "") + "::").split(":")
    return (name, int(nth or 1), effect) if name else None


_armed = _configured()
_hits = 0


def failpoint(name: str) -> None:
    """Die or hang here, if this is the armed point and its n-th hit."""
    if _armed is None or _armed[0] != name:
        return
    global _hits
    _hits += 1
    if _hits == _armed[1]:
        if log := os.environ.get("TOOLTAP_FAILPOINT_LOG"):
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(descriptor, f"{name}\n".encode())
        if _armed[2] == "hang":
            threading.Event().wait()
        os.kill(os.getpid(), signal.SIGKILL)
