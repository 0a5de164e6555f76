"""Checks a journal while a daemon uses it: in a thread, on a connection of its own, and for a share of the time."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from tooltap.daemon.journal.sqlite.file import Durability, connect
from tooltap.daemon.journal.sqlite.upkeep.check import Damage, check

STEPS = 20_000
"""Steps of SQLite between two pauses."""
LEAST_SHARE = 0.5
"""Least share of the time for the check of the pages' structure, which runs in one snapshot; the log is not reused
meanwhile."""
LONGEST_PAUSE = 5.0


class _StoppedError(Exception):
    pass


class Scrub:
    """`share`: of the time; in the rest it waits."""

    def __init__(self, path: Path, durability: Durability, share: float) -> None:
        self.rows = 0
        """Rows that were verified so far."""
        self._path = path
        self._durability: Durability = durability
        self._share = share
        self._worked_from = 0.0
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> list[Damage] | None:
        """Blocks. None if it was stopped."""
        self._worked_from = time.monotonic()
        try:
            with closing(connect(self._path, self._durability)) as connection:
                connection.set_progress_handler(self._step, STEPS)
                return list(check(connection, self._path, self._pace))
        except _StoppedError:
            return None
        except sqlite3.OperationalError:
            if self._stop.is_set():
                return None
            raise

    def _step(self) -> bool:
        """Whether to interrupt the statement."""
        return self._pause(max(self._share, LEAST_SHARE))

    def _pace(self, rows: int, table: str) -> None:
        self.rows += rows
        if self._pause(self._share):
            raise _StoppedError

    def _pause(self, share: float) -> bool:
        worked = time.monotonic() - self._worked_from
        stopped = self._stop.wait(min(worked * (1 / share - 1), LONGEST_PAUSE))
        self._worked_from = time.monotonic()
        return stopped
