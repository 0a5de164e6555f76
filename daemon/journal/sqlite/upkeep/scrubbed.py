"""What the last scrub of a daemon found, as the journal has it. `doctor` reads it, and must start fast."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.schema import open_read_only
from tooltap.daemon.journal.sqlite.tables import verified_meta

__all__ = ["SCRUB_NOTE", "Scrubbed", "last_scrub"]

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
