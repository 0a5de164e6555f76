"""Where the index of a journal is: beside a file; for a journal on a server, in the user's data directory.

Several daemons of a user may share a journal on a server. Each has an index of its own, which it locks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tooltap.daemon.journal.open import Place
from tooltap.daemon.journal.sqlite.file import steady_place
from tooltap.daemon.system.paths import indexes_folder
from tooltap.traces.recording.own_file import LockedError, lock_own, private_folder

MOST_DAEMONS = 100


def place_of_index(place: Place) -> Callable[[str], Path]:
    """A function from the journal's id to the file of its index, which raises `OSError` and `JournalError`."""
    if isinstance(place, Path):
        return lambda _: Path(f"{steady_place(place)}.search")
    return _Own().path_of


class _Own:
    """The indexes that this daemon has locked: the kernel releases them when it ends."""

    def __init__(self) -> None:
        self._places: dict[str, Path] = {}

    def path_of(self, journal: str) -> Path:
        if journal not in self._places:
            self._places[journal] = _lock_first(indexes_folder(), re.sub(r"[^A-Za-z0-9_-]", "_", journal))
        return self._places[journal]


def _lock_first(folder: Path, name: str) -> Path:
    private_folder(folder)
    for number in range(1, MOST_DAEMONS + 1):
        path = folder / f"{name}.{number}.search"
        try:
            lock_own(f"{path}.lock")
        except LockedError:
            continue
        return path
    raise OSError(f"{MOST_DAEMONS} daemons have a search index of this journal")
