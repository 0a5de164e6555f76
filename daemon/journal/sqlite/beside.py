"""The files beside the journal, which SQLite takes for its own, whoever put them there.

In a folder as `/tmp`, where every user may create files but not exchange those of others, these names are made ours
before SQLite looks at them: a log of another user would be read into the journal, or written to, for that user to read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tooltap.daemon.journal.interface import JournalError
from tooltap.traces.recording.own_file import NotOursError, is_shared, open_own, steady_folder, without_planted_links

__all__ = ["COMPANIONS", "check_beside", "claim_beside", "steady_place"]

COMPANIONS = ("-wal", "-shm", "-journal")
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


def claim_beside(path: Path) -> None:
    """Create what SQLite would create, empty, which it takes for none. Whoever does it holds the lock, and does it once
    more when the journal is created: SQLite removes what is beside a new one. Raises `JournalError` and `OSError`."""
    if not is_shared(path.parent):
        return
    for companion in (Path(f"{path}{suffix}") for suffix in COMPANIONS):
        try:
            os.close(open_own(companion, os.O_RDWR | os.O_CREAT))
        except NotOursError as error:
            raise JournalError(f"{companion} cannot be the journal's: {error.strerror}; {ADVICE}") from None


def check_beside(path: Path) -> None:
    """Check, before reading a journal, that the files beside it belong to the same user. Raises `JournalError`."""
    try:
        if not is_shared(path.parent):
            return
        owner = os.stat(path).st_uid
    except OSError:  # to open it fails as well, and says why
        return
    for companion in (Path(f"{path}{suffix}") for suffix in COMPANIONS):
        try:
            status = os.lstat(companion)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise JournalError(f"{companion} is not the journal's: another user has put it there")
