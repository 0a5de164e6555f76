"""Ends a process that was asked to stop and does not, whatever its threads do.

That is safe: what is acknowledged is durable, and publishers have everything else. So the exit code is the usual one.
"""

from __future__ import annotations

import os
import signal
import threading

from tooltap.daemon.system.logs import flush, get_logger

__all__ = ["ForcedEnd"]

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

_log = get_logger("process")


class ForcedEnd:
    """`seconds`: how long the process may take to end after `arm`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = False

    def arm(self, number: int) -> None:
        """`number`: of the signal."""
        if not self._armed:
            self._armed = True
            code = INTERRUPTED if number == signal.SIGINT else 0
            timer = threading.Timer(self._seconds, self._end, (code,))
            timer.daemon = True
            timer.start()

    def _end(self, code: int) -> None:
        _log.warning("ended without waiting any longer; nothing acknowledged is lost", seconds=self._seconds)
        flush()
        os._exit(code)
