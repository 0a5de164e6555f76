"""The journal that the configuration asks for."""

from __future__ import annotations

from pathlib import Path

from tooltap.daemon.config import Config
from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.journal.sqlite.journal import SqliteJournal

__all__ = ["open_journal"]


async def open_journal(config: Config) -> Journal:
    """Raises `JournalError`, `ConfigError`."""
    place = config.journal_place
    if isinstance(place, Path):
        return await SqliteJournal.open(place, durability=config.durability)
    try:
        from tooltap.daemon.journal.nats.journal import NatsJournal
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "nats":
            raise
        raise JournalError("a journal on NATS needs an extra: pip install tooltap[nats]") from None
    return await NatsJournal.open(place)
