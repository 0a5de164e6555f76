"""Checks a journal while a daemon uses it: in a thread, on a connection of its own, and for a share of the time."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import msgspec

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.file import Durability, connect, open_read_only
from tooltap.daemon.journal.sqlite.tables import verified_meta
from tooltap.daemon.journal.sqlite.upkeep.check import Found, check

STEPS = 20_000
"""Steps of SQLite between two pauses."""
LEAST_SHARE = 0.5
"""For the structure of the pages, which is checked in one snapshot; the log is not reused meanwhile."""
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

    def run(self) -> list[Found] | None:
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


SCRUB_NOTE = "scrub"
"""The name of the note."""


class Scrubbed(msgspec.Struct):
    at: int
    """Milliseconds since the epoch."""
    number: int
    damages: list[str]
    """In words, the first of them."""


def last_scrub(path: Path) -> Scrubbed | None:
    """None if there was none, or that cannot be read."""
    try:
        with closing(open_read_only(path)) as connection:
            note = verified_meta(connection, f"note {SCRUB_NOTE}")
            return msgspec.json.decode(note, type=Scrubbed) if isinstance(note, bytes) else None
    except (JournalError, sqlite3.Error, msgspec.MsgspecError):
        return None
