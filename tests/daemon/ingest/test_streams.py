"""Who may write to a stream, how fast, and what becomes of one that is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.publishing import Clock, Publisher, daemon, events, journal_of, publish, streams_on
from tooltap.daemon.journal.interface import Commit, JournalError
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.protocol.frames import Ack, Done, ErrorFrame, FrameError, Ingesting, Suspended

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SAY = {"do": "say", "text": "hello"}
CALL = {"do": "call", "id": "1", "name": "Bash", "input": {"command": "ls"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in found if one["kind"] == "message"]


async def test_a_dialect_that_does_not_exist_is_refused(path: Path) -> None:
    async with daemon(path) as streams:
        with pytest.raises(FrameError, match="there is no dialect 'klingon'; known are auto, ") as caught:
            await publish(streams, dialect="klingon")
        assert caught.value.code == "unknown-dialect"
        assert streams.connections == {}


async def test_raw_input_onto_a_stream_that_exists_must_say_where_it_goes_on(path: Path) -> None:
    async with daemon(path) as streams:
        first = await publish(streams, framing="raw")
        with pytest.raises(FrameError, match="stream s exists"):
            await publish(streams, framing="raw")
        await first.session.feed(b'{"do":"say","text":"a"}\n')
        await first.session.finish()
        for wrong in (None, 0, 2):
            with pytest.raises(FrameError) as caught:
                await publish(streams, framing="raw", from_=wrong)
            assert caught.value.code == "stream-exists"

        second = await publish(streams, framing="raw", from_=1)
        await second.session.feed(b'{"do":"say","text":"b"}\n')
        await second.session.finish()
        assert texts(await events(journal_of(streams))) == ["a", "b"]


class Gate(SqliteJournal):
    """A journal that can be kept from answering, as a slow disk would."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gate = anyio.Event()
        self.gate.set()
        self.asked = 0
        self.failing = False

    async def commit(self, commit: Commit) -> None:
        self.asked += 1
        await self.gate.wait()
        if self.failing:
            raise JournalError("the journal cannot be written: disk full")
        await super().commit(commit)


@pytest.fixture
async def slow(path: Path) -> Any:
    journal = await Gate.open(path)
    yield journal
    await journal.close()


async def test_a_second_connection_takes_over_and_what_was_not_committed_is_discarded(slow: Gate) -> None:
    async with streams_on(slow) as streams, anyio.create_task_group() as tasks:
        older = await publish(streams)
        await older.lines({"do": "say", "text": "committed"})
        await older.until(Ack(lines=1))
        slow.gate = anyio.Event()
        await older.lines({"do": "say", "text": "in flight"})
        await anyio.wait_all_tasks_blocked()
        await older.lines({"do": "say", "text": "waiting"})

        newer: list[Publisher] = []
        taken_over = anyio.Event()

        async def take_over() -> None:
            newer.append(await publish(streams))
            taken_over.set()

        tasks.start_soon(take_over)
        await anyio.wait_all_tasks_blocked()
        assert newer == []
        slow.gate.set()
        await older.until(ErrorFrame(code="superseded", message="another connection has taken stream s over"))
        await older.session.over.wait()
        await older.lines(SAY)
        await older.session.finish()
        await taken_over.wait()

        assert newer[0].last(Ingesting).lines == 2
        await newer[0].lines({"do": "say", "text": "again"})
        await newer[0].session.finish()
        assert texts(await events(slow)) == ["committed", "in flight", "again"]
        assert streams.connections == {}


async def test_an_end_that_another_connection_prevents_is_not_called_done(slow: Gate) -> None:
    async with streams_on(slow) as streams, anyio.create_task_group() as tasks:
        older = await publish(streams)
        await older.lines(SAY)
        await older.until(Ack(lines=1))
        slow.gate = anyio.Event()
        await older.lines(SAY)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(lambda: older.record(op="end"))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(publish, streams)
        await anyio.wait_all_tasks_blocked()
        slow.gate.set()
        await older.session.over.wait()

    assert [type(frame) for frame in older.frames] == [Ingesting, Ack, Ack, ErrorFrame]


async def test_a_publisher_is_taken_no_more_from_than_can_wait_to_be_durable(slow: Gate) -> None:
    async with streams_on(slow, in_flight_bytes=1_000) as streams, anyio.create_task_group() as tasks:
        publisher = await publish(streams)
        await publisher.lines(SAY)
        await publisher.until(Ack(lines=1))
        slow.gate = anyio.Event()
        fed = 0

        async def feed() -> None:
            nonlocal fed
            for _ in range(100):
                await publisher.lines({"do": "say", "text": "x" * 100})
                fed += 1
            await publisher.session.finish()

        tasks.start_soon(feed)
        await anyio.wait_all_tasks_blocked()
        assert fed == 5  # the sixth line, of 122 bytes and 64 for being one, is the first beyond 1,000
        asked = slow.asked

        slow.gate.set()
        with anyio.fail_after(10):
            await publisher.session.over.wait()
        assert publisher.last(Suspended).lines == 101
        assert len(await events(slow)) == 101
        assert slow.asked - asked < 100  # what came while one commit was written went into the next


async def test_a_journal_that_fails_ends_the_session_and_the_publisher_can_come_back(slow: Gate) -> None:
    clock = Clock()
    async with streams_on(slow, clock, suspend_timeout_ms=1_000) as streams:
        publisher = await publish(streams)
        await publisher.lines(SAY)
        await publisher.until(Ack(lines=1))
        slow.failing = True
        await publisher.lines(SAY)
        await publisher.until(ErrorFrame(code="journal", message="the journal cannot be written: disk full"))
        assert publisher.session.over.is_set()
        await publisher.session.finish()

        slow.failing = False
        again = await publish(streams)
        assert again.last(Ingesting).lines == 1
        await again.lines(SAY)
        await again.until(Ack(lines=2))
        slow.failing = True
        await again.lines(SAY)
        await again.session.over.wait()

        slow.failing = False
        clock.now += 1_000
        assert await streams.close_overdue() == 1  # though nothing could mark it as suspended
        assert [(one.state, one.lines) for one in await slow.streams()] == [("ended", 2)]


# -- streams left alone, ended by others, and at shutdown -----------------------------------------------------------


async def test_a_suspended_stream_is_closed_when_nobody_comes_back(path: Path) -> None:
    clock = Clock()
    async with daemon(path, clock, suspend_timeout_ms=1_000) as streams:
        for stream in ("left", "back"):
            publisher = await publish(streams, stream)
            await publisher.lines(CALL)
            await publisher.session.finish()
        clock.now += 999
        assert await streams.close_overdue() == 0

        back = await publish(streams, "back")
        clock.now += 2_000
        assert await streams.close_overdue() == 1
        states = {one.stream: one.state for one in await journal_of(streams).streams()}
        assert states == {"left": "ended", "back": "open"}
        closing = (await events(journal_of(streams)))[-1]
        assert (closing["id"], closing["status"], closing["synthetic"]) == ("left:1c:0", "interrupted", True)
        assert closing["ts"] == clock.now
        await back.session.finish()


async def test_a_stream_can_be_ended_by_somebody_else(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.lines(CALL)
        statistics = await streams.end("s")
        assert (statistics.lines, statistics.events) == (1, 2)
        assert publisher.last(Done).events == 2
        await publisher.session.finish()

        assert await streams.end("s") == statistics
        with pytest.raises(FrameError, match="there is no stream 'other'"):
            await streams.end("other")


async def test_at_shutdown_every_publisher_is_told_how_far_it_came(path: Path) -> None:
    async with daemon(path) as streams:
        tapping, raw = await publish(streams, "t"), await publish(streams, "r", framing="raw")
        await tapping.lines(CALL, SAY)
        await raw.session.feed(b'{"do":"say","text":"a"}\n{"do":')
        await streams.suspend_all()

        assert tapping.frames[-1] == Suspended(lines=2)
        assert raw.frames[-1] == Suspended(lines=1)
        assert {one.state for one in await journal_of(streams).streams()} == {"suspended"}
