"""SQLite's side files (`-wal`, `-shm`, `-journal`), which SQLite trusts whoever created them.

In a folder as `/tmp`, where every user may create files but not exchange those of others, these names are made ours
before SQLite looks at them: a log of another user would be read into the journal, or written to, for that user to read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tooltap.daemon.journal.interface import JournalError
from tooltap.traces.recording.own_file import NotOursError, is_shared, open_own, steady_folder, without_planted_links

SIDE_FILES = ("-wal", "-shm", "-journal")
ADVICE = "choose another place for the journal"


def steady_place(path: Path) -> Path:
    """Return the journal's path without links. Create its folder if there is none, and check that nobody else may
    exchange the journal in it. Raises `JournalError`."""
    try:
        place = Path(without_planted_links(path))
        try:
            steady_folder(place.parent)
        except NotOursError as error:
            advice = f"run chmod go-w {place.parent}, or {ADVICE}"
            raise JournalError(f"the journal cannot be in {place.parent}: {error.strerror}; {advice}") from None
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from None
    return place


def claim_side_files(path: Path) -> None:
    """Pre-create the side files, empty, so that nobody else can plant them. The caller holds the lock, and calls this
    once more when the journal is created: SQLite removes the side files of a new one. Raises `JournalError` and
    `OSError`."""
    if not is_shared(path.parent):
        return
    for companion in (Path(f"{path}{suffix}") for suffix in SIDE_FILES):
        try:
            os.close(open_own(companion, os.O_RDWR | os.O_CREAT))
        except NotOursError as error:
            raise JournalError(f"{companion} cannot be the journal's: {error.strerror}; {ADVICE}") from None


def check_side_files(path: Path) -> None:
    """Check, before reading a journal, that its side files belong to the same user. Raises `JournalError`."""
    try:
        if not is_shared(path.parent):
            return
        owner = os.stat(path).st_uid
    except OSError:  # to open it fails as well, and says why
        return
    for companion in (Path(f"{path}{suffix}") for suffix in SIDE_FILES):
        try:
            status = os.lstat(companion)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise JournalError(f"{companion} is not the journal's: another user has put it there")
