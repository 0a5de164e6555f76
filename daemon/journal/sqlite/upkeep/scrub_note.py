"""The result of the last scrub, a note in the journal. Apart from `scrub.py`, because `doctor` must start fast."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.file import open_read_only
from tooltap.daemon.journal.sqlite.tables import verified_meta

SCRUB_NOTE = "scrub"
"""The name of the note."""


class Scrubbed(msgspec.Struct):
    """The result of a scrub."""

    at: int
    """Milliseconds since the epoch."""
    number: int
    damages: list[str]
    """In words, the first of them."""


def last_scrub(path: Path) -> Scrubbed | None:
    """Read the note of the last scrub. None if there was none, or it cannot be read."""
    try:
        with closing(open_read_only(path)) as connection:
            note = verified_meta(connection, f"note {SCRUB_NOTE}")
            return msgspec.json.decode(note, type=Scrubbed) if isinstance(note, bytes) else None
    except (JournalError, sqlite3.Error, msgspec.MsgspecError):
        return None
