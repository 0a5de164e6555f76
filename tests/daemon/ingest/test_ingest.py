"""Publishing a stream: framing, acknowledgements, ends, partials, traces."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.command import CLAUDE
from tests.daemon.publishing import NOW, daemon, events, journal_of, publish, tapped
from tests.traces.recording.tracing import writer_to
from tooltap.daemon.journal.interface import Committed
from tooltap.normalizers.core.items import Limits, Produced
from tooltap.normalizers.wire.framing import HEAD_BYTES
from tooltap.protocol.events import Message
from tooltap.protocol.frames import Ack, Done, ErrorFrame, Ingesting, Suspended
from tooltap.protocol.inputs import Line
from tooltap.traces.recording.reader import TraceReader
from tooltap.traces.recording.writer import Declared

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SAY = {"do": "say", "text": "hello"}
CALL = {"do": "call", "id": "1", "name": "Bash", "input": {"command": "ls"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in found if one["kind"] == "message"]


# -- framing and ends ---------------------------------------------------------------------------------------------


async def test_tapped_stream_is_acknowledged_and_ended(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams, provider="maker")
        await publisher.lines(SAY, CALL)
        await publisher.record(op="end")

        statistics = publisher.last(Done)
        assert [type(frame) for frame in publisher.frames] == [Ingesting, Ack, Done]
        assert publisher.frames[0] == Ingesting(stream="s", state="new", lines=0, dialect="toy")
        assert publisher.frames[1] == Ack(lines=2)
        assert (statistics.lines, statistics.with_events, statistics.events) == (2, 2, 3)
        assert [(one["id"], one["kind"]) for one in await events(journal_of(streams))] == [
            ("s:1:0", "message"),
            ("s:2:0", "tool-call"),
            ("s:2c:0", "tool-result"),
        ]
        assert not publisher.ingest.over.is_set()  # more lines may come


async def test_end_of_raw_input_ends_the_stream(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams, framing="raw")
        await publisher.ingest.feed(b'{"do":"say","text":"a"}\n\n{"do":"say",')
        await publisher.ingest.feed(b'"text":"b"}')
        await publisher.ingest.finish()

        done = publisher.last(Done)
        assert (done.lines, done.skipped, done.with_events) == (3, {"blank": 1}, 2)
        assert texts(await events(journal_of(streams))) == ["a", "b"]
        assert publisher.ingest.over.is_set()
        assert streams.connections == {}


async def test_tapped_input_without_end_is_suspended(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.ingest.feed(tapped(CALL) + tapped(SAY)[:-1])
        await publisher.ingest.finish()

        assert publisher.frames[1:] == [Ack(lines=1), Suspended(lines=1)]
        (info,) = await journal_of(streams).streams()
        assert (info.state, info.lines) == ("suspended", 1)
        assert len((await journal_of(streams).open_calls())["calls"]) == 1


async def test_empty_stream_has_empty_statistics(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams, framing="raw")
        await publisher.ingest.finish()

        assert publisher.last(Done).lines == 0
        assert [one.state for one in await journal_of(streams).streams()] == ["ended"]


async def test_unnamed_stream_gets_a_name(path: Path) -> None:
    async with daemon(path) as streams:
        names = {(await publish(streams, None)).last(Ingesting).stream for _ in range(3)}
        assert len(names) == 3


async def test_ending_twice_is_the_same_and_new_lines_reopen(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.lines(CALL)
        await publisher.record(op="end")
        first = publisher.last(Done)
        await publisher.record(op="end")
        assert publisher.last(Done) == first
        await publisher.ingest.finish()

        again = await publish(streams)
        assert again.frames == [
            Ingesting(stream="s", state="ended", lines=1, dialect="toy", crc=crc_of(CALL), crc_line=1)
        ]
        await again.record(op="end")
        assert again.frames[1:] == [first]

        await again.lines({"do": "result", "id": "1", "output": "late"}, SAY)
        await again.record(op="end")
        assert again.last(Done).lines == 3
        late = (await events(journal_of(streams)))[2]
        assert (late["id"], late["replaces"]) == ("s:2:0", "s:1c:0")


async def test_line_between_two_ends_is_not_lost(path: Path) -> None:
    end = b'{"op":"end"}\n'
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.ingest.feed(tapped(CALL) + end + tapped(SAY) + end)

        answers = [frame for frame in publisher.frames if isinstance(frame, Done)]
        assert [(one.lines, one.events) for one in answers] == [(1, 2), (2, 3)]


async def test_line_time_defaults_to_receipt(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.ingest.feed(tapped(SAY, NOW - 5) + tapped(SAY, 17) + tapped(SAY))
        await publisher.ingest.finish()

        assert [one["ts"] for one in await events(journal_of(streams))] == [NOW - 5, NOW, NOW]


async def test_lost_lines_count_as_lines(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.lines(SAY)
        await publisher.record(op="lost", lines=3, bytes=99, reason="spool full")
        await publisher.lines(SAY)
        await publisher.record(op="end")

        done = publisher.last(Done)
        assert (done.lines, done.skipped) == (5, {"lost": 3})
        assert [one["id"] for one in await events(journal_of(streams))] == ["s:1:0", "s:4:0", "s:5:0"]
        (info,) = await journal_of(streams).streams()
        assert info.crc_line == 5


@pytest.mark.parametrize("framing", ["raw", "tapped"])
async def test_over_long_line_keeps_head_and_length(path: Path, framing: str) -> None:
    long = {"do": "say", "text": "x" * 6_000}
    body = b'{"do":"say","text":"' + b"x" * 6_000 + b'"}\n'
    async with daemon(path, limits=Limits(line_bytes=5_000)) as streams:
        publisher = await publish(streams, framing=framing)
        await publisher.ingest.feed(body if framing == "raw" else tapped(long))
        await publisher.ingest.suspend()

        (event,) = await events(journal_of(streams))
        assert (event["kind"], event["reason"], event["bytes"]) == ("unparsed", "too-long", len(body) - 1)
        stored = await journal_of(streams).load_stream("s")
        assert stored is not None
        assert stored.tail == [Line(body[:4096], stored.info.last_t, size=len(body) - 1)]
        assert stored.info.crc_line == 0


async def test_over_long_tapped_record_keeps_its_head(path: Path) -> None:
    async with daemon(path, limits=Limits(line_bytes=5_000)) as streams:
        publisher = await publish(streams)
        record = tapped({"do": "say", "text": "x" * 20_000})
        await publisher.ingest.feed(record + tapped(SAY))
        await publisher.ingest.finish()

        unparsed, message = await events(journal_of(streams))
        assert (unparsed["reason"], unparsed["bytes"]) == ("too-long", len(record) - 1)
        assert message["line"] == 2


async def test_untapped_line_suspends_the_stream_before_it(path: Path) -> None:
    async with daemon(path) as streams:
        publisher = await publish(streams)
        await publisher.ingest.feed(tapped(SAY) + b"\n" + b'{"line":"a","dir":"up"}\n' + tapped(SAY))

        assert publisher.frames[1:] == [
            Ack(lines=1),
            ErrorFrame(
                code="not-tapped",
                message="line 2 of stream s did not come as a tapped line: unknown direction 'up'",
            ),
        ]
        assert publisher.ingest.over.is_set()
        await publisher.lines(SAY)
        await publisher.ingest.finish()
        (info,) = await journal_of(streams).streams()
        assert (info.state, info.lines) == ("suspended", 1)

        again = await publish(streams)
        await again.lines(SAY)
        assert again.frames == [
            Ingesting(stream="s", state="suspended", lines=1, dialect="toy", crc=crc_of(SAY), crc_line=1),
        ]
        await again.ingest.finish()
        assert len(await events(journal_of(streams))) == 2


# -- partials and traces ------------------------------------------------------------------------------------------


async def test_wanted_partials_are_published_in_place(path: Path) -> None:
    wanted = False
    async with daemon(path, partials_wanted=lambda: wanted) as streams:
        published: list[tuple[int | None, str]] = []

        def on_commit(committed: list[Committed]) -> None:
            for outputs, seqs in committed:
                for output, seq in zip(outputs, seqs, strict=True):
                    assert isinstance(output, Produced)
                    assert isinstance(output.event, Message)
                    published.append((seq, output.event.text))

        journal_of(streams).on_commit = on_commit
        publisher = await publish(streams)
        await publisher.lines({"do": "chunk", "text": "a"})
        wanted = True
        await publisher.lines({"do": "chunk", "text": "b"}, SAY)
        await publisher.record(op="end")

        assert published == [(None, "b"), (1, "hello"), (2, "ab")]


async def test_durable_line_is_traced_once(path: Path) -> None:
    trace = writer_to(path.with_name("t.jsonl"))
    async with daemon(path, trace=trace, limits=Limits(line_bytes=5_000)) as streams:
        publisher = await publish(streams, provider="maker", session="mine")
        await publisher.lines(SAY)
        await publisher.record(op="lost", lines=2, bytes=9, reason="full")
        await publisher.lines({"do": "say", "text": "x" * 6_000})
        await publisher.record(op="end")
        await publisher.lines(SAY)
        await publisher.ingest.finish()
        await streams.end("s")
    trace.close()
    records = list(TraceReader(trace.path).records())

    assert [(one.op, one.n, one.dialect, one.provider, one.t) for one in records] == [
        (op, n, "toy", "maker", NOW)
        for op, n in ((None, 1), ("lost", 3), (None, 4), ("close", 4), (None, 5), ("close", 5))
    ]
    assert {one.declared for one in records} == {Declared(provider="maker", session="mine")}
    assert records[0].raw == b'{"do":"say","text":"hello"}'
    assert (records[1].lines, records[1].size, records[1].reason) == (2, 9, "full")
    assert (len(records[2].raw), records[2].size) == (HEAD_BYTES, 6_022)


async def test_lines_of_a_chunk_are_traced_one_by_one(path: Path) -> None:
    traces = []
    lines = [tapped(SAY, NOW), tapped(b"", NOW), tapped(b"x" * 6_000, NOW), tapped(SAY, NOW + 1), tapped(SAY, NOW + 1)]
    for name, chunks in (("single", lines), ("chunk", [b"".join(lines)])):
        trace = writer_to(path.with_name(f"{name}.jsonl"))
        async with daemon(path.with_name(f"{name}.db"), trace=trace, limits=Limits(line_bytes=5_000)) as streams:
            publisher = await publish(streams)
            for chunk in chunks:
                await publisher.ingest.feed(chunk)
                await publisher.ingest._wait_until_durable()
            await publisher.ingest.finish()
        trace.close()
        assert trace.statistics()["records"] == len(lines)
        traces.append(trace.path.read_bytes())

    assert traces[0] == traces[1]


async def test_lines_traced_early_carry_the_dialect(path: Path) -> None:
    trace = writer_to(path.with_name("t.jsonl"))
    opening, telling = b'{"hello":1}', CLAUDE.read_bytes().splitlines()[0]
    async with daemon(path, trace=trace) as streams:
        known = await publish(streams, "known", dialect="auto")
        unknown = await publish(streams, "unknown", dialect="auto")
        for publisher in (known, unknown):
            await publisher.lines(opening)
            await publisher.until(Ack(lines=1))
        assert trace.statistics()["records"] == 0
        await known.lines(telling)
        await known.record(op="end")
        await unknown.ingest.finish()
    trace.close()
    records = list(TraceReader(trace.path))

    assert [(one.stream, one.n, one.dialect) for one in records] == [
        ("known", 1, "claude-stream"),
        ("known", 2, "claude-stream"),
        ("unknown", 1, None),
    ]


def crc_of(value: dict[str, Any]) -> str:
    return f"{zlib.crc32(orjson.dumps(value)):08x}"
