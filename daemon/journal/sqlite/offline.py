"""Reading a journal file without a daemon, and without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tooltap.daemon.journal.sqlite.reader import read
from tooltap.daemon.journal.sqlite.schema import open_read_only
from tooltap.protocol.filters import Filter

__all__ = ["event_bodies"]

CHUNK_BYTES = 1024 * 1024


def event_bodies(path: Path, wanted: Filter) -> Iterator[bytes]:
    """The encoded events, without `seq`. Raises `JournalError`."""
    with closing(open_read_only(path)) as connection:
        (latest,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        after = 0
        while after < latest:
            events, after = read(connection, after, latest, wanted, CHUNK_BYTES)
            for event in events:
                yield event.body
