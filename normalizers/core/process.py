"""What the end of an agent's process says about the turns that were open then."""

from __future__ import annotations

import signal
from typing import Literal, TypeAlias

from tooltap.protocol.inputs import ProcessEnd

Outcome: TypeAlias = Literal["failed", "cancelled"]

_STOPS = ("SIGHUP", "SIGINT", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGTERM")
"""Signals by which a process is stopped from outside; others mean that it has crashed."""
_CODES = frozenset(128 + signal.Signals[name] for name in _STOPS)
"""Exit codes by which a program, such as a shell, states that one of these signals ended it."""


def outcome_of_process(end: ProcessEnd) -> Outcome | None:
    """Return the outcome of a turn in which the process ended; None if the end does not say, because the exit code
    is 0."""
    if end.exit == 0:
        return None
    if end.stopped_by is not None or end.signal in _STOPS or end.exit in _CODES:
        return "cancelled"
    return "failed"
