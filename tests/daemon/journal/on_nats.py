"""Journals on NATS as daemons open them, and what is read from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import orjson

from tooltap.daemon.journal.interface import (
    Committed,
    StoredEvent,
    StreamInfo,
)
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.normalizers.core.items import Produced

__all__ = ["Published", "everything", "opened", "position", "texts", "until"]


@asynccontextmanager
async def opened(place: NatsPlace) -> AsyncIterator[NatsJournal]:
    """The journal as one daemon opens it."""
    journal = await NatsJournal.open(place)
    try:
        yield journal
    finally:
        await journal.close()


def texts(events: list[StoredEvent]) -> list[str]:
    return [orjson.loads(one.body)["text"] for one in events]


async def everything(journal: NatsJournal, after: int = 0) -> list[StoredEvent]:
    await journal._connection.retry(journal._refresh)
    events: list[StoredEvent] = []
    while after < journal.latest:
        found, after = await journal.read(after)
        events += found
    return events


async def position(journal: NatsJournal, stream: str = "s") -> StreamInfo:
    stored = await journal.load_stream(stream)
    assert stored is not None
    return stored.info


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    with anyio.fail_after(20):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)


class Published:
    """The arguments of `on_commit`."""

    def __init__(self, journal: NatsJournal) -> None:
        self.events: list[StoredEvent] = []
        journal.on_commit = self._take

    def _take(self, committed: list[Committed]) -> None:
        for outputs, seqs in committed:
            for output, seq in zip(outputs, seqs, strict=True):
                if isinstance(output, Produced) and seq is not None:
                    self.events.append(StoredEvent(seq, output.body))
