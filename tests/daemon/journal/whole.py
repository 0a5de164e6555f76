"""Reads everything that a journal holds."""

from __future__ import annotations

import orjson

from tooltap.daemon.journal.interface import (
    Journal,
    StoredEvent,
)
from tooltap.protocol.filters import ALL_EVENTS, Filter

__all__ = ["everything", "numbers", "texts", "until_published"]


async def numbers(journal: Journal) -> dict[int | None, int]:
    """`seq` of each event -> its number, so that journals with different `seq` can be compared."""
    return {one.seq: number for number, one in enumerate(await everything(journal), 1)}


async def until_published(journal: Journal) -> None:
    """Wait for `on_commit`, which may come later."""
    await journal.listen()


def texts(events: list[StoredEvent]) -> list[str]:
    return [orjson.loads(one.body)["text"] for one in events]


async def everything(journal: Journal, wanted: Filter = ALL_EVENTS) -> list[StoredEvent]:
    events: list[StoredEvent] = []
    after = 0
    while after < journal.latest:
        found, after = await journal.read(after, wanted, max_bytes=1_000)
        events += found
    return events
