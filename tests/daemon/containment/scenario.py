"""Runs several streams through one daemon's ingest, journal and hub, with publishers that reconnect after errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import orjson

from tests.daemon.containment.sites import armed
from tests.daemon.publishing import NOW, Clock
from tooltap.daemon.hub import Chunk, Hub, Subscription
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.views.results import Policy
from tooltap.daemon.views.rules import Rules, ToolRule
from tooltap.normalizers.core.items import Limits
from tooltap.protocol.events import decode
from tooltap.protocol.frames import (
    Ack,
    DaemonFrame,
    Done,
    ErrorFrame,
    FrameError,
    Ingest,
    Ingesting,
    Subscribe,
    Suspended,
)
from tooltap.protocol.inputs import write_tapped
from tooltap.protocol.stats import Statistics
from tooltap.testing import check_events
from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import Drift
from tooltap.traces.recording.writer import TraceWriter

__all__ = ["Published", "Ran", "published_of", "run"]

TRIES = 6
"""Maximum number of connections of a publisher."""
PATIENCE = 30
"""Seconds after which publishers count as stuck."""
CHUNK = 4
"""Lines that are sent together."""
RULES = {
    "*": ToolRule(max_chars=50),
    "Bash": ToolRule(template="{input.command}: {lines} lines"),
    "Read": ToolRule(silent=True),
}


@dataclass
class Published:
    """A stream, and what its publisher sends and receives. `end`: whether it ends; if not, it is left to
    `close_overdue`."""

    stream: str
    dialect: str
    lines: list[bytes]
    end: bool = True
    frames: list[DaemonFrame] = field(default_factory=list)
    reconnects: int = -1


@dataclass
class Ran:
    """The results of a run."""

    events: dict[str, list[bytes]]
    statistics: dict[str, Statistics]
    subscribed: list[bytes]
    reconnects: int


class Reader:
    """A subscriber that accepts everything at once."""

    writable = True
    closed = ended = False
    bytes_written = 0

    def __init__(self) -> None:
        self.data = b""
        self.frames: list[DaemonFrame] = []

    def deliver(self, chunk: Chunk) -> None:
        if not self.closed:
            self.data += chunk.data

    def send(self, frame: DaemonFrame) -> None:
        self.frames.append(frame)

    async def drain(self) -> None:
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        self.closed = True


def published_of(paths: Sequence[Path], limit: int) -> list[Published]:
    """Return streams of recordings in `tests/fixtures`. The dialect of the second is recognized; the last one is left
    suspended."""
    found = []
    for number, path in enumerate(paths):
        lines = path.read_bytes().splitlines()[:limit]
        dialect = "auto" if number == 1 else path.parent.parent.name
        found.append(Published(f"s{number}", dialect, lines, end=number < len(paths) - 1))
    return found


async def run(directory: Path, streams: list[Published]) -> Ran:
    """Publish all streams at once, chunk by chunk in turn; read the journal afterwards, and what was subscribed to."""
    clock = Clock()
    journal = await SqliteJournal.open(directory / "journal.db", clock=clock)
    trace = TraceWriter(
        directory / "trace.jsonl", lambda _: None, file_bytes=10**6, total_bytes=10**7, buffer_bytes=10**6
    )
    drift = Drift(lambda dialect: load(PACKAGED, dialect), thorough=True)
    reader = Reader()
    try:
        async with anyio.create_task_group() as tasks:
            hub = Hub(journal, tasks, recent_bytes=1_000_000)
            journal.on_commit, journal.on_skip = hub.publish, hub.skip
            daemon = Streams(
                journal,
                tasks,
                limits=Limits(string_bytes=512),
                clock=clock,
                trace=trace,
                drift=drift,
                policy=Policy(Rules(RULES)),
                partials_wanted=lambda: hub.partials_wanted,
                snapshot_bytes=2_000,
            )
            reader = await _subscribe(hub, reader)
            armed[0] = True
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as publishers:
                    for one in streams:
                        publishers.start_soon(_publish, daemon, one)
            clock.now += 10**9
            for _ in range(TRIES):  # what one pass could not close, the next one does
                try:
                    await daemon.close_overdue()
                except Exception:
                    continue
                armed[0] = False
                if not await journal.abandoned(clock.now):
                    break
            with anyio.fail_after(10):
                while hub.latest < journal.latest:
                    await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            armed[0] = False
            events = await _events(journal)
            infos = {one.stream: (await _stored(journal, one.stream)).info for one in streams}
            subscribed = await _whole(hub, reader)
            tasks.cancel_scope.cancel()
    finally:
        armed[0] = False
        trace.close()
        await journal.close()
    return Ran(
        {one.stream: [body for name, body in events if name == one.stream] for one in streams},
        {name: info.statistics for name, info in infos.items()},
        subscribed,
        sum(max(one.reconnects, 0) for one in streams),
    )


def check(ran: Ran, streams: list[Published]) -> None:
    """Every line of every stream is in exactly one class, every publisher knows it, and the events keep the rules."""
    for one in streams:
        counted = ran.statistics[one.stream]
        classed = counted.with_events + counted.unparsed + sum(counted.skipped.values())
        assert counted.lines == classed == len(one.lines), (one.stream, counted)
        events = [decode(body) for body in ran.events[one.stream]]
        check_events(events)
        assert counted.events == len(events), (one.stream, counted.events, len(events))
        done = [frame for frame in one.frames if isinstance(frame, Done)]
        if one.end:
            assert done, one.frames
            assert done[-1].lines == len(one.lines), done
        acknowledged = [frame.lines for frame in one.frames if isinstance(frame, Ack | Ingesting | Suspended | Done)]
        assert not one.lines or max(acknowledged) == len(one.lines), one.frames


async def _publish(daemon: Streams, one: Published) -> None:
    """Publish a stream as a publisher does: lines that were not acknowledged are sent again over a new connection."""
    for _ in range(TRIES):
        one.reconnects += 1
        failed = False

        def take(frame: DaemonFrame) -> None:
            nonlocal failed
            one.frames.append(frame)
            failed = failed or isinstance(frame, ErrorFrame)

        connection = None
        try:
            connection = await daemon.open(Ingest(stream=one.stream, framing="tapped", dialect=one.dialect), take)
            start = next(frame.lines for frame in reversed(one.frames) if isinstance(frame, Ingesting))
            for at in range(start, len(one.lines), CHUNK):
                chunk = b"".join(write_tapped(line, NOW, None) + b"\n" for line in one.lines[at : at + CHUNK])
                await connection.feed(chunk)
                await anyio.lowlevel.checkpoint()
            if one.end:
                await connection.feed(b'{"op":"end","t":1700000000500}\n')
            await connection.finish()
        except (Exception, JournalError, FrameError):  # as the server does: the connection is over
            failed = True
            if connection is not None:
                try:
                    await connection.finish()
                except Exception:
                    pass
        ended = any(isinstance(frame, Done) for frame in one.frames)
        if not failed and (ended or not one.end):
            return


async def _subscribe(hub: Hub, reader: Reader) -> Reader:
    subscription = Subscription(hub, reader, Subscribe(after="start", partials=True), at_interval=60, read_bytes=65_536)
    subscription.start()
    shown = Subscription(hub, Reader(), Subscribe(after="start", as_="display"), at_interval=60, read_bytes=65_536)
    shown.start()
    return reader


async def _whole(hub: Hub, reader: Reader) -> list[bytes]:
    """Return the events that the subscriber got, without partials. A failed subscription is resumed after its last
    event."""
    lines = [line for line in reader.data.splitlines() if line.startswith(b'{"seq"')]
    seqs = [orjson.loads(line)["seq"] for line in lines]
    assert seqs == sorted(set(seqs)), "an event came twice, or out of order"
    for _ in range(TRIES):
        after = seqs[-1] if seqs else 0
        if after >= hub.latest:
            break
        again = Reader()
        Subscription(hub, again, Subscribe(after=after, follow=False), at_interval=60, read_bytes=65_536).start()
        with anyio.fail_after(10):
            while not again.closed:
                await anyio.lowlevel.checkpoint()
        more = [line for line in again.data.splitlines() if line.startswith(b'{"seq"')]
        lines += more
        seqs += [orjson.loads(line)["seq"] for line in more]
    assert seqs == list(range(1, hub.latest + 1)), "an event is missing"
    return lines


async def _events(journal: SqliteJournal) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    after = 0
    while after < journal.latest:
        stored, after = await journal.read(after)
        found += [(orjson.loads(one.body)["stream"], one.body) for one in stored]
    return found


async def _stored(journal: SqliteJournal, stream: str) -> Any:
    stored = await journal.load_stream(stream)
    assert stored is not None
    return stored
