"""Parsing a `--journal` value, and opening the journal that it names.

A new journal adds a place to `parse_place` and a branch to `open_journal`; nothing else names journals.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tooltap.daemon.journal.interface import Journal, JournalError, PlaceError
from tooltap.daemon.journal.nats.place import SCHEMES, NatsPlace, parse_nats_url
from tooltap.daemon.system.optional_packages import how_to_install
from tooltap.daemon.system.paths import journals_folder
from tooltap.traces.recording.own_file import why_not_writable

if TYPE_CHECKING:  # the configuration is checked without opening a journal
    from tooltap.daemon.journal.sqlite.file import Durability


Place: TypeAlias = Path | NatsPlace
"""Where a journal is: the path of a SQLite file, or a place on NATS."""


def parse_place(text: str) -> Place:
    """Read `PATH`, `sqlite:PATH` or a NATS URL. Raises `PlaceError`."""
    kind, colon, rest = text.partition(":")
    if not colon:
        return Path(text).expanduser()
    if kind in SCHEMES:
        return parse_nats_url(text)
    if kind == "sqlite" and rest:
        return Path(rest).expanduser()
    raise PlaceError(f"unknown journal {text!r}: write sqlite:PATH or nats://HOST")


async def open_journal(place: Place, durability: Durability) -> Journal:
    """Open the journal, or create it. Raises `JournalError`."""
    if isinstance(place, Path):
        from tooltap.daemon.journal.sqlite.journal import SqliteJournal

        try:
            return await SqliteJournal.open(place, durability=durability)
        except JournalError as error:
            if reason := why_not_writable(place.absolute().parent):
                advice = "make it writable, or choose another place: `tooltap serve --journal sqlite:PATH`"
                raise JournalError(f"{reason}; {advice}") from error
            raise
    try:
        from tooltap.daemon.journal.nats.journal import NatsJournal
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "nats":
            raise
        raise JournalError(
            f"a journal on NATS needs packages that are not installed: {how_to_install('nats')}"
        ) from None
    return await NatsJournal.open(place, memory=journals_folder())
