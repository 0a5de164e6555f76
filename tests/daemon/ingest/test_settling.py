"""Streams that are silent: settled once, whether or not their publisher is there, and rebuilt exactly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.publishing import TIMEOUT, Clock, daemon, events, journal_of, publish
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import Commit, JournalError
from tooltap.daemon.system.logs import faults
from tooltap.protocol.inputs import Settle

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

BEGIN = {"do": "begin"}
SAY = {"do": "say", "text": "Done."}
ENDED = ("s:2d:2000000", "completed", True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@asynccontextmanager
async def settling(path: Path, seconds: float = 0.01, **options: Any) -> AsyncIterator[Streams]:
    async with daemon(path, settle_seconds=seconds, **options) as streams, anyio.create_task_group() as tasks:
        await streams.restore()
        tasks.start_soon(streams.run_settling)
        yield streams
        tasks.cancel_scope.cancel()


async def turns(streams: Streams, count: int) -> list[tuple[str, str, bool]]:
    """Return id, state and `provisional` of the turns' events once there are this many."""
    with anyio.fail_after(TIMEOUT):
        while True:
            found = [one for one in await events(journal_of(streams)) if one["kind"] == "turn"]
            if len(found) >= count:
                return [(one["id"], one["state"], one.get("provisional", False)) for one in found]
            await anyio.lowlevel.checkpoint()


async def notices(streams: Streams) -> list[str]:
    return [one["code"] for one in await events(journal_of(streams)) if one["kind"] == "notice"]


async def test_silent_stream_of_a_publisher_is_settled(path: Path) -> None:
    async with settling(path) as streams:
        publisher = await publish(streams)
        await publisher.lines(BEGIN, SAY)
        assert (await turns(streams, 2))[1:] == [ENDED]

        await publisher.lines(SAY)
        assert (await turns(streams, 3))[2:] == [("s:3d:2000000", "completed", True)]
        await publisher.record(op="end")
        assert (await turns(streams, 4))[3:] == [("s:3c:0", "completed", False)]
        assert not (await journal_of(streams).streams())[0].unsettled


async def test_stream_whose_publisher_has_left_is_settled(path: Path) -> None:
    async with settling(path, 0.5) as streams:
        publisher = await publish(streams)
        await publisher.lines(BEGIN, SAY)
        await publisher.ingest.finish()

        assert (await turns(streams, 2))[1:] == [ENDED]
        assert [(one.state, one.unsettled) for one in await journal_of(streams).streams()] == [("suspended", False)]


async def test_stream_is_settled_once_the_journal_can_be_written_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with settling(path) as streams:
        journal = journal_of(streams)
        usual, refused = journal.commit, 0

        async def refuse(commit: Commit) -> None:
            nonlocal refused
            if not any(isinstance(one, Settle) for one in commit.tail):
                await usual(commit)
                return
            refused += 1
            if refused > 2:
                monkeypatch.undo()
            raise JournalError("database or disk is full")

        monkeypatch.setattr(journal, "commit", refuse)
        publisher = await publish(streams)
        await publisher.lines(BEGIN, SAY)
        await publisher.ingest.finish()

        assert (await turns(streams, 2))[1:] == [ENDED]
        assert faults.counts == {}
    assert refused == 3


@pytest.mark.parametrize("snapshot_bytes", [0, 1024 * 1024])
async def test_settled_stream_is_rebuilt_exactly(path: Path, snapshot_bytes: int) -> None:
    async with settling(path, snapshot_bytes=snapshot_bytes) as streams:
        publisher = await publish(streams)
        await publisher.lines(BEGIN, SAY)
        await turns(streams, 2)
        await publisher.ingest.finish()
        stored = await journal_of(streams).load_stream("s")
        assert stored is not None
        assert snapshot_bytes == 0 or Settle in map(type, stored.tail)
    async with settling(path, snapshot_bytes=snapshot_bytes) as streams:
        publisher = await publish(streams)
        await publisher.lines(SAY)

        assert await turns(streams, 3) == [
            ("s:1:0", "started", False),
            ENDED,
            ("s:3d:2000000", "completed", True),
        ]
        assert await notices(streams) == []


async def test_daemon_that_dies_before_the_end_settles_it_after_its_start(path: Path) -> None:
    async with settling(path, 3600.0) as streams:
        publisher = await publish(streams)
        await publisher.lines(BEGIN, SAY)
        await publisher.ingest.finish()
    clock = Clock()
    clock.now += 3600 * 1000
    async with settling(path, 3600.0, clock=clock) as streams:
        assert (await turns(streams, 2))[1:] == [ENDED]
        assert await notices(streams) == []


async def test_stream_with_an_open_call_is_not_due(path: Path) -> None:
    async with settling(path) as streams:
        publisher = await publish(streams)
        await publisher.lines(BEGIN, {"do": "call", "id": "a", "name": "X"}, SAY)
        other = await publish(streams, "other")
        await other.lines(BEGIN, SAY)

        assert [one[0] for one in await turns(streams, 3)] == ["s:1:0", "other:1:0", "other:2d:2000000"]
