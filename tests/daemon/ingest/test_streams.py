"""Who may write to a stream, how fast, and when an abandoned one is closed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from tests.daemon.answering import OPENING, question
from tests.daemon.publishing import NOW, TIMEOUT, Clock, Publisher, daemon, events, journal_of, publish, streams_on
from tooltap.daemon.ingest.answering import Answering
from tooltap.daemon.journal.interface import Commit, Committed, JournalError, StoredStream
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.system.logs import faults
from tooltap.protocol.frames import (
    Ack,
    AnswerRequest,
    Done,
    ErrorFrame,
    FrameError,
    Ingesting,
    Suspended,
    ToAgent,
)
from tooltap.protocol.replies import AnswerResult

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SAY = {"do": "say", "text": "hello"}
CALL = {"do": "call", "id": "1", "name": "Bash", "input": {"command": "ls"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in found if one["kind"] == "message"]


async def test_unknown_dialect_is_refused(path: Path) -> None:
    async with daemon(path) as streams:
        with pytest.raises(FrameError, match="there is no dialect 'klingon'; known are auto, ") as caught:
            await publish(streams, dialect="klingon")
        assert caught.value.code == "unknown-dialect"
        assert streams.connections == {}


async def test_raw_input_to_existing_stream_needs_from(path: Path) -> None:
    async with daemon(path) as streams:
        first = await publish(streams, framing="raw")
        with pytest.raises(FrameError, match="stream s exists"):
            await publish(streams, framing="raw")
        await first.ingest.feed(b'{"do":"say","text":"a"}\n')
        await first.ingest.finish()
        for wrong in (None, 0, 2):
            with pytest.raises(FrameError) as caught:
                await publish(streams, framing="raw", from_=wrong)
            assert caught.value.code == "stream-exists"

        second = await publish(streams, framing="raw", from_=1)
        await second.ingest.feed(b'{"do":"say","text":"b"}\n')
        await second.ingest.finish()
        assert texts(await events(journal_of(streams))) == ["a", "b"]


class Gate(SqliteJournal):
    """A journal whose commits and answers can be delayed, as by a slow disk."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gate = anyio.Event()
        self.gate.set()
        self.reading = anyio.Event()
        self.reading.set()
        self.asked = self.loaded = 0
        self.failing = False

    async def load_stream(self, stream: str) -> StoredStream | None:
        stored = await super().load_stream(stream)
        self.loaded += 1
        await self.reading.wait()
        return stored

    async def commit(self, commit: Commit) -> None:
        self.asked += 1
        await self.gate.wait()
        if self.failing:
            raise JournalError("the journal cannot be written: disk full")
        await super().commit(commit)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(TIMEOUT):
        while not is_so():
            await anyio.sleep(0.001)


async def until_abandoned(publisher: Publisher) -> None:
    """Wait until another connection takes the stream over, for which it first loads the stream, in a thread."""
    await until(lambda: publisher.ingest._abandoned)


@pytest.fixture
async def slow(path: Path) -> Any:
    journal = await Gate.open(path)
    yield journal
    await journal.close()


async def test_takeover_discards_uncommitted_lines(slow: Gate) -> None:
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
        await until_abandoned(older)
        await anyio.wait_all_tasks_blocked()
        assert newer == []
        slow.gate.set()
        await older.until(ErrorFrame(code="superseded", message="another connection has taken stream s over"))
        await older.ingest.over.wait()
        await older.lines(SAY)
        await older.ingest.finish()
        await taken_over.wait()

        assert newer[0].last(Ingesting).lines == 2
        await newer[0].lines({"do": "say", "text": "again"})
        await newer[0].ingest.finish()
        assert texts(await events(slow)) == ["committed", "in flight", "again"]
        assert streams.connections == {}


async def test_publisher_that_ends_while_the_stream_is_read(slow: Gate) -> None:
    """What it commits last is not what the next one has read."""
    async with streams_on(slow) as streams, anyio.create_task_group() as tasks:
        older = await publish(streams)
        await older.lines({"do": "say", "text": "read"})
        await older.until(Ack(lines=1))
        slow.reading = anyio.Event()
        newer: list[Publisher] = []
        taken_over = anyio.Event()

        async def take_over() -> None:
            newer.append(await publish(streams))
            taken_over.set()

        tasks.start_soon(take_over)
        await anyio.wait_all_tasks_blocked()
        await older.lines({"do": "say", "text": "committed since"})
        await older.ingest.finish()
        assert older.last(Suspended).lines == 2
        slow.reading.set()
        await taken_over.wait()

        assert newer[0].last(Ingesting).lines == 2
        await newer[0].lines({"do": "say", "text": "again"})
        await newer[0].ingest.finish()
        assert texts(await events(slow)) == ["read", "committed since", "again"]


@pytest.mark.parametrize("leaves", ["away", "at a line that is not tapped"])
async def test_answer_that_is_being_written_while_its_publisher_leaves(slow: Gate, leaves: str) -> None:
    """Who comes back then gets the answer: it does not continue from a stream that was loaded without it."""
    async with streams_on(slow) as streams, anyio.create_task_group() as tasks:
        older = await publish(streams, dialect="acp", to_agent=True)
        await older.ingest.feed(b"".join(tapped_jsonrpc(*line) for line in [*OPENING, ("out", question(1))]))
        await older.until(Ack(lines=6))
        slow.gate = anyio.Event()
        asked = slow.asked
        tasks.start_soon(older.ingest.finish if leaves == "away" else partial(older.ingest.feed, b"untapped\n"))
        await until(lambda: slow.asked == asked + 1)
        answers: list[AnswerResult] = []

        async def answer() -> None:
            request = AnswerRequest(permission_id="101", outcome="allowed", option_id="yes", by="phone")
            answers.append(await Answering(slow, streams.connections, Clock()).answer(request))

        tasks.start_soon(answer)
        await until(lambda: bool(older.ingest.live.info.answers))
        slow.gate.set()  # the one that waits is written, the answer waits
        slow.gate = anyio.Event()
        await until(lambda: slow.asked == asked + 2)

        newer: list[Publisher] = []

        async def come_back() -> None:
            newer.append(await publish(streams, dialect="acp", to_agent=True))

        loaded = slow.loaded
        slow.reading = anyio.Event()
        tasks.start_soon(come_back)
        await until(lambda: slow.loaded == loaded + 1)
        slow.gate.set()
        await until(lambda: bool(answers))
        slow.reading.set()
        await until(lambda: bool(newer))

        assert [answers[0].outcome, answers[0].delivered] == ["allowed", False]
        assert orjson.loads(newer[0].last(ToAgent).payload.line)["result"]["outcome"]["optionId"] == "yes"
        stored = await slow.load_stream("s")
        assert stored is not None
        assert list(stored.info.answers) == ["101"]


def tapped_jsonrpc(direction: str, line: dict[str, Any]) -> bytes:
    return orjson.dumps({"dir": direction, "line": orjson.dumps({"jsonrpc": "2.0", **line}).decode()}) + b"\n"


async def test_superseded_end_is_not_done(slow: Gate) -> None:
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
        await until_abandoned(older)
        slow.gate.set()
        await older.ingest.over.wait()

    assert [type(frame) for frame in older.frames] == [Ingesting, Ack, Ack, ErrorFrame]


async def test_backpressure_bounds_lines_in_flight(slow: Gate) -> None:
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
            await publisher.ingest.finish()

        tasks.start_soon(feed)
        await anyio.wait_all_tasks_blocked()
        assert fed == 5  # the sixth line, of 122 bytes plus 64 each, is the first beyond 1,000
        asked = slow.asked

        slow.gate.set()
        with anyio.fail_after(10):
            await publisher.ingest.over.wait()
        assert publisher.last(Suspended).lines == 101
        assert len(await events(slow)) == 101
        assert slow.asked - asked < 100  # lines that arrived during a commit went into the next


async def test_publisher_can_return_after_a_journal_failure(slow: Gate) -> None:
    clock = Clock()
    async with streams_on(slow, clock, suspend_timeout_ms=1_000) as streams:
        publisher = await publish(streams)
        await publisher.lines(SAY)
        await publisher.until(Ack(lines=1))
        slow.failing = True
        await publisher.lines(SAY)
        await publisher.until(ErrorFrame(code="journal", message="the journal cannot be written: disk full"))
        assert publisher.ingest.over.is_set()
        await publisher.ingest.finish()

        slow.failing = False
        again = await publish(streams)
        assert again.last(Ingesting).lines == 1
        await again.lines(SAY)
        await again.until(Ack(lines=2))
        slow.failing = True
        await again.lines(SAY)
        await again.ingest.over.wait()

        slow.failing = False
        clock.now += 1_000
        assert await streams.close_overdue() == 1  # although it could not be marked as suspended
        assert [(one.state, one.lines) for one in await slow.streams()] == [("ended", 2)]


# -- abandoned streams, ends by other clients, shutdown -------------------------------------------------------------


async def test_abandoned_stream_is_closed_once_the_journal_can_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with daemon(path, clock, suspend_timeout_ms=1_000) as streams:
        publisher = await publish(streams, "left")
        await publisher.lines(CALL)
        await publisher.ingest.finish()
        clock.now += 2_000

        async def refuse(_: Commit) -> Committed:
            raise JournalError("database or disk is full")

        with monkeypatch.context() as full:
            full.setattr(journal_of(streams), "commit", refuse)
            assert await streams.close_overdue() == 0
            assert await streams.close_overdue() == 0
        assert await streams.close_overdue() == 1
        assert faults.counts == {}


async def test_abandoned_stream_is_closed(path: Path) -> None:
    clock = Clock()
    async with daemon(path, clock, suspend_timeout_ms=1_000) as streams:
        for stream in ("left", "back"):
            publisher = await publish(streams, stream)
            await publisher.lines(CALL)
            await publisher.ingest.finish()
        clock.now += 999
        assert await streams.close_overdue() == 0

        back = await publish(streams, "back")
        clock.now += 2_000
        assert await streams.close_overdue() == 1
        states = {one.stream: one.state for one in await journal_of(streams).streams()}
        assert states == {"left": "ended", "back": "open"}
        closing = (await events(journal_of(streams)))[-1]
        assert (closing["id"], closing["status"], closing["synthetic"]) == ("left:1c:0", "interrupted", True)
        assert closing["ts"] == NOW  # when its call was received
        await back.ingest.finish()


async def test_stream_is_ended_by_another_client(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.lines(CALL)
        statistics = await streams.end("s")
        assert (statistics.lines, statistics.events) == (1, 2)
        assert publisher.last(Done).events == 2
        await publisher.ingest.finish()

        assert await streams.end("s") == statistics
        with pytest.raises(FrameError, match="there is no stream 'other'"):
            await streams.end("other")


async def test_shutdown_sends_publishers_their_position(path: Path) -> None:
    async with daemon(path) as streams:
        tapping, raw = await publish(streams, "t"), await publish(streams, "r", framing="raw")
        await tapping.lines(CALL, SAY)
        await raw.ingest.feed(b'{"do":"say","text":"a"}\n{"do":')
        await streams.suspend_all()

        assert tapping.frames[-1] == Suspended(lines=2)
        assert raw.frames[-1] == Suspended(lines=1)
        assert {one.state for one in await journal_of(streams).streams()} == {"suspended"}
