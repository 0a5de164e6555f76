"""Backup: a consistent copy of a journal, even while a daemon writes to it.

The copy is written to a temporary folder, checked, and linked to its final path. It is marked as a copy. Opened in the
place of the original, it continues after the high-water mark found there; opened elsewhere, it becomes a separate
journal with a new id, so that cursors of the original are invalid.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.check import check_file
from tooltap.daemon.journal.sqlite.damage import is_corrupt
from tooltap.daemon.journal.sqlite.file import connect, open_read_only, sync_folder
from tooltap.daemon.journal.sqlite.opening import BACKUP
from tooltap.daemon.journal.sqlite.tables import set_meta

STEPS = 20_000
"""Virtual machine steps of SQLite between two pauses."""
SHARE = 0.5
"""Share of the time spent copying; the rest leaves the disk to the daemon."""


def backup(path: Path, target: Path) -> int:
    """Copy the journal to `target`; returns the size of the copy in bytes. Raises `JournalError`."""
    if not path.exists():
        raise JournalError(f"there is no journal {path}")
    if target.exists():
        raise JournalError(f"{target} exists already")
    # In its own folder: where others may write, they could prepare the files that SQLite creates beside it.
    folder = Path(f"{target}.partial")
    partial = folder / "journal.db"
    try:
        if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid():
            shutil.rmtree(folder)  # of a backup that was killed
        os.mkdir(folder, 0o700)
    except OSError as error:
        raise JournalError(f"{folder} cannot be created: {error.strerror}") from error
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(path, partial)
        for found in check_file(partial):
            raise JournalError(f"the copy is damaged, as the journal {path} is: {found.text}")
        os.link(partial, target)  # unlike a renaming, it replaces nothing
        sync_folder(target.absolute().parent)
        return target.stat().st_size
    except FileExistsError:
        raise JournalError(f"{target} exists already") from None
    except OSError as error:
        raise JournalError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: Path, partial: Path) -> None:
    try:
        with closing(open_read_only(path)) as source:
            paused = time.monotonic()

            def pause() -> None:
                nonlocal paused
                time.sleep((time.monotonic() - paused) * (1 / SHARE - 1))
                paused = time.monotonic()

            source.set_progress_handler(pause, STEPS)
            source.execute("VACUUM INTO ?", (str(partial),))
        with closing(connect(partial, "power")) as copy:
            copy.execute("BEGIN IMMEDIATE")
            set_meta(copy, BACKUP, 1)
            copy.execute("COMMIT")
    except sqlite3.Error as error:
        if is_corrupt(error):
            advice = "run `tooltap journal check`"
            raise JournalError(f"the journal {path} is damaged, and cannot be copied ({error}): {advice}") from error
        raise JournalError(f"the journal {path} cannot be copied: {error}") from error
    descriptor = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
