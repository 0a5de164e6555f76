"""One stream's trouble reaches no other: not its publisher, not those beside it, not what runs regularly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.publishing import Clock, daemon, events, journal_of, publish, tapped
from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import StoredStream
from tooltap.daemon.sessions.projection import Projection
from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.delivery.spool import QuarantineLimits
from tooltap.daemon.taps.drain import Drain
from tooltap.protocol.events import decode
from tooltap.protocol.frames import Ack, Done
from tooltap.testing import check_events

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SAY = {"do": "say", "text": "Hi"}
HELLO = Path(__file__).parent.parent.parent / "fixtures/claude-stream/claude-code-1.0.128/denied.jsonl"
UNHASHABLE = b'{"sessionId":"x","type":{"a":1}}'


def classed(done: Done) -> int:
    return done.with_events + done.unparsed + sum(done.skipped.values())


@pytest.mark.parametrize("framing", ["raw", "tapped"])
async def test_line_that_no_rule_recognises_is_one_line(tmp_path: Path, framing: str) -> None:
    async with daemon(tmp_path / "journal.db") as streams:
        publisher = await publish(streams, framing=framing, dialect="auto")
        for line in (UNHASHABLE, HELLO.read_bytes().splitlines()[0]):
            await publisher.ingest.feed(tapped(line) if framing == "tapped" else line + b"\n")
        if framing == "tapped":
            await publisher.record(op="end")
        else:
            await publisher.ingest.finish()

        done = publisher.last(Done)
        assert (done.lines, classed(done), done.dialect) == (2, 2, "claude-stream")


async def test_line_that_the_journal_cannot_take_is_unparsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "poison")
    async with daemon(tmp_path / "journal.db") as streams:
        publisher, other = await publish(streams), await publish(streams, "other")
        await publisher.lines({"do": "begin"}, SAY, {"do": "say", "text": "poison"}, SAY, SAY)
        await other.lines(SAY)
        for one in (publisher, other):
            await one.record(op="end")

        done = publisher.last(Done)
        assert (done.lines, done.with_events, done.unparsed) == (5, 4, 1)
        assert other.last(Done).with_events == 1
        found = [one for one in await events(journal_of(streams)) if one["stream"] == "s"]
        (bad,) = [one for one in found if one["kind"] == "unparsed"]
        assert bad["line"] == 3
        assert bad["reason"] == "parser-error: UnstorableError at daemon.journal.sqlite.writer:_insert_outputs"
        assert "parser-reset" not in [one.get("code") for one in found]
        assert [one["turn"] for one in found if one["kind"] == "message"] == ["t1"] * 3
        check_events([decode(json.dumps(one)) for one in found])
    assert faults.counts.total() > 0

    async with daemon(tmp_path / "journal.db") as streams:  # and it is not read again
        again = await publish(streams)
        await again.lines(SAY)
        await again.record(op="end")
        assert "parser-reset" not in [one.get("code") for one in await events(journal_of(streams))]


async def test_lines_that_come_while_a_stream_is_rebuilt_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "poison")
    async with daemon(tmp_path / "journal.db", in_flight_bytes=10**9) as streams:
        publisher = await publish(streams)
        for number in range(200):
            await publisher.lines({"do": "say", "text": "poison" if number % 50 == 7 else str(number)})
            if number % 10 == 0:
                await anyio.lowlevel.checkpoint()
        await publisher.record(op="end")

        done = publisher.last(Done)
        found = [one for one in await events(journal_of(streams)) if one["kind"] == "message"]
        assert (done.lines, done.with_events, done.unparsed) == (200, 196, 4)
        assert [one["text"] for one in found] == [str(one) for one in range(200) if one % 50 != 7]
        acks = [frame.lines for frame in publisher.frames if isinstance(frame, Ack)]
        assert acks == sorted(set(acks))


async def test_overdue_stream_that_cannot_be_closed_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with daemon(tmp_path / "journal.db", clock, suspend_timeout_ms=1_000) as streams:
        for name in ("a", "b", "c"):
            publisher = await publish(streams, name)
            await publisher.lines({"do": "call", "id": "x", "name": "Bash"})
            await publisher.ingest.finish()
        clock.now += 2_000
        usual = Streams._close

        async def close(self: Streams, stored: StoredStream, reason: str) -> Any:
            if stored.info.stream == "a":
                raise RecursionError
            return await usual(self, stored, reason)

        monkeypatch.setattr(Streams, "_close", close)
        assert await streams.close_overdue() == 2
        monkeypatch.setattr(Streams, "_close", usual)
        assert await streams.close_overdue() == 1


async def test_spool_that_fails_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {tmp_path / "a": 1, tmp_path / "b": 1}
    taken: list[Path] = []

    async def take_in(self: Drain, path: Path) -> str:
        if path.name == "a":
            raise TypeError
        taken.append(path)
        return "taken in"

    monkeypatch.setattr("tooltap.daemon.taps.drain.spools", lambda _: paths)
    monkeypatch.setattr(Drain, "_take_in", take_in)
    async with daemon(tmp_path / "journal.db") as streams:
        await Drain(streams, tmp_path / "t.sock", tmp_path, QuarantineLimits(1, 1)).run()
    assert taken == [tmp_path / "b"]


async def test_stream_that_cannot_be_suspended_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = IngestConnection.suspend
    broken: list[IngestConnection] = []

    async def suspend(self: IngestConnection) -> None:
        if not broken:
            broken.append(self)
            raise MemoryError
        await usual(self)

    monkeypatch.setattr(IngestConnection, "suspend", suspend)
    async with daemon(tmp_path / "journal.db") as streams:
        for name in ("a", "b"):
            publisher = await publish(streams, name)
            await publisher.lines(SAY)
        await streams.suspend_all()
        assert {info.stream: info.state for info in await journal_of(streams).streams()}["b"] == "suspended"


def refuse(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Let the journal's projection fail at events that have the word in them."""
    usual = Projection.apply

    def apply(self: Projection, stream: str, entries: Any, *lineage: Any) -> None:
        entries = list(entries)
        if any(word.encode() in entry.body and entry.kind == "message" for _, entry in entries):
            raise OverflowError
        usual(self, stream, entries)

    monkeypatch.setattr(Projection, "apply", apply)
