"""Publish to `Streams` without a socket, and read the journal afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson

from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.normalizers.core.items import Limits
from tooltap.protocol.frames import DaemonFrame, Ingest
from tooltap.protocol.inputs import write_tapped

NOW = 1_700_000_000_000
TIMEOUT = 30


class Clock:
    """Clock that stands still unless a test advances it."""

    now = NOW

    def __call__(self) -> int:
        return self.now


@asynccontextmanager
async def daemon(path: Path, clock: Clock | None = None, **options: Any) -> AsyncIterator[Streams]:
    """Open the journal and the streams of one daemon."""
    clock = clock or Clock()
    journal = await SqliteJournal.open(path, clock=clock)
    try:
        await journal.suspend_all()
        async with streams_on(journal, clock, **options) as streams:
            yield streams
    finally:
        await journal.close()


@asynccontextmanager
async def streams_on(journal: Journal, clock: Clock | None = None, **options: Any) -> AsyncIterator[Streams]:
    async with anyio.create_task_group() as tasks:
        yield Streams(journal, tasks, **{"limits": Limits(), "clock": clock or Clock(), **options})
        tasks.cancel_scope.cancel()


class Publisher:
    """An ingest connection without a socket: collects its frames, feeds it lines."""

    def __init__(self) -> None:
        self.frames: list[DaemonFrame] = []
        self.ingest: IngestConnection
        self._arrived = anyio.Event()

    def send(self, frame: DaemonFrame) -> None:
        self.frames.append(frame)
        self._arrived.set()

    async def until(self, expected: DaemonFrame) -> None:
        with anyio.fail_after(TIMEOUT):
            while expected not in self.frames:
                self._arrived = anyio.Event()
                await self._arrived.wait()

    async def lines(self, *values: Any) -> None:
        """Feed tapped lines in one chunk; values other than bytes are sent as JSON."""
        await self.ingest.feed(b"".join(tapped(value) for value in values))

    async def record(self, **record: Any) -> None:
        await self.ingest.feed(orjson.dumps(record) + b"\n")

    def last(self, kind: type[DaemonFrame]) -> Any:
        return next(frame for frame in reversed(self.frames) if isinstance(frame, kind))


def tapped(value: Any, t: int | None = None) -> bytes:
    line = value if isinstance(value, bytes) else orjson.dumps(value)
    return write_tapped(line, t, None) + b"\n"


async def publish(streams: Streams, stream: str | None = "s", framing: str = "tapped", **keys: Any) -> Publisher:
    publisher = Publisher()
    frame = Ingest(stream=stream, **{"framing": framing, "dialect": "toy", **keys})
    publisher.ingest = await streams.open(frame, publisher.send)
    return publisher


async def events(journal: Journal) -> list[dict[str, Any]]:
    """All events of the journal, without `seq`."""
    found: list[dict[str, Any]] = []
    after = 0
    while after < journal.latest:
        stored, after = await journal.read(after)
        found += [orjson.loads(one.body) for one in stored]
    return found


def journal_of(streams: Streams) -> SqliteJournal:
    journal = streams._journal
    assert isinstance(journal, SqliteJournal)
    return journal
