"""The events some streams have in a journal, from wherever it can be read: the running daemon, or its file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tooltap.daemon.client.subscription import subscribe
from tooltap.daemon.journal.sqlite.reader import read
from tooltap.daemon.journal.sqlite.schema import open_read_only
from tooltap.protocol.filters import Filter

__all__ = ["from_daemon", "from_file"]

MAX_NAMES = 200
"""Streams that are asked for by name; of more, everything is read."""
CHUNK = 1024 * 1024


async def from_daemon(streams: Sequence[str], socket: Path | None) -> AsyncIterator[bytes]:
    """Event lines. Raises what `subscribe` does."""
    async with subscribe(
        after="start", filter=_filter(streams), follow=False, path=socket, reconnect=False
    ) as subscription:
        async for item in subscription:
            if isinstance(item, bytes):
                yield item


def from_file(streams: Sequence[str], path: Path) -> Iterator[bytes]:
    """Event lines, without `seq`. The file is not changed. Raises `JournalError`."""
    with closing(open_read_only(path)) as connection:
        (latest,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        after = 0
        while after < latest:
            events, after = read(connection, after, latest, _filter(streams), CHUNK)
            for event in events:
                yield event.body


def _filter(streams: Sequence[str]) -> Filter:
    return Filter(stream=tuple(streams)) if len(streams) <= MAX_NAMES else Filter()
