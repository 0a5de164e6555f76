"""A stream whose parser was lost continues exactly as if nothing had happened, or else emits a reset."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.publishing import NOW, Clock, Publisher, daemon, events, journal_of, publish
from tests.normalizers.toy import TOY, Toy
from tooltap.daemon.ingest import live_stream
from tooltap.daemon.journal.sqlite.check import check_file
from tooltap.daemon.views.results import Policy
from tooltap.daemon.views.rules import Rules, ToolRule
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.protocol import inputs
from tooltap.protocol.frames import Done, Ingesting
from tooltap.protocol.inputs import Block, Lost, each, lines_of, write_tapped

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = [
    "acp/opencode-1.18.33/parallel-calls.jsonl",
    "claude-stream/claude-code-2.1.330/control-question.jsonl",
]

RULES = Rules({"*": ToolRule(template="{tool} {preview}: {bytes} bytes"), "Bash": ToolRule(template="{input.command}")})
"""Views show what is remembered of calls."""
LIMITS = Limits(string_bytes=40, held_lines=4)
LOST = "lost"

STREAM: list[Any] = [
    {"do": "begin"},
    {"do": "chunk", "text": "The first half, "},
    {"do": "chunk", "text": "the second half: longer than a string may be"},
    {"do": "call", "id": "1", "name": "Bash", "input": {"command": "make"}},
    {"do": "ask", "id": "p", "call": "1"},
    {"do": "session", "id": "late-id"},
    b"",
    b"not json",
    {"do": "answer", "id": "p", "outcome": "allowed"},
    LOST,
    {"do": "chunk", "role": "reasoning", "text": "hm"},
    {"do": "call", "id": "2", "name": "Read", "input": {"file_path": "/a"}, "agent": "child", "parent": "1"},
    {"do": "result", "id": "1", "output": {"stdout": "x" * 100}, "is_async": True},
    {"do": "finish"},
    {"do": "begin"},
    {"do": "result", "id": "1", "output": "done", "final": True},
    {"do": "chunk", "text": "bye"},
]


async def feed(publisher: Publisher, value: Any) -> None:
    if value is LOST:
        await publisher.record(op="lost", lines=2, bytes=10, reason="full")
    else:
        await publisher.lines(value)


async def end(publisher: Publisher) -> Done:
    await publisher.record(op="end")
    await publisher.ingest.finish()
    done = publisher.last(Done)
    assert isinstance(done, Done)
    return done


async def unbroken(path: Path, dialect: str, values: list[Any] = STREAM) -> tuple[list[dict[str, Any]], Done]:
    async with daemon(path, limits=LIMITS) as streams:
        publisher = await publish(streams, dialect=dialect)
        for value in values:
            await feed(publisher, value)
        done = await end(publisher)
        return await events(journal_of(streams)), done


def tables(path: Path) -> dict[str, list[Any]]:
    """Everything else in the journal that does not depend on the order of commits."""
    database = sqlite3.connect(path)
    queries = {
        "bodies": "SELECT output_id, bytes, newlines FROM bodies ORDER BY 1",
        "pieces": "SELECT output_id, start, data FROM pieces JOIN bodies ON body=id ORDER BY 1, 2",
        "calls": "SELECT id, data FROM calls ORDER BY 1",
        "sessions": "SELECT session, data FROM sessions ORDER BY 1",
        "snapshots": "SELECT stream, lines FROM snapshots",
    }
    found = {name: database.execute(query).fetchall() for name, query in queries.items()}
    database.close()
    return found


@pytest.mark.parametrize("dialect", ["toy", "auto"])
@pytest.mark.parametrize("snapshot_bytes", [0, 300, 1024 * 1024])
async def test_resume_after_every_line_changes_nothing(tmp_path: Path, snapshot_bytes: int, dialect: str) -> None:
    expected, done = await unbroken(tmp_path / "unbroken.db", dialect)

    path = tmp_path / "journal.db"
    lines = 0
    for value in STREAM:
        async with daemon(path, limits=LIMITS, snapshot_bytes=snapshot_bytes) as streams:
            publisher = await publish(streams, dialect=dialect)
            assert publisher.last(Ingesting).lines == lines
            await feed(publisher, value)
            await publisher.ingest.finish()
        lines += 2 if value is LOST else 1
    async with daemon(path, limits=LIMITS, snapshot_bytes=snapshot_bytes) as streams:
        assert await end(await publish(streams)) == done
        assert await events(journal_of(streams)) == expected
    assert tables(path) == tables(tmp_path / "unbroken.db")


@pytest.mark.parametrize("snapshot_bytes", [0, 4_096, 1024 * 1024])
@pytest.mark.parametrize("recording", RECORDINGS)
async def test_recorded_stream_resumed_after_every_line_is_unchanged(
    tmp_path: Path, recording: str, snapshot_bytes: int
) -> None:
    settings: dict[str, Any] = {"policy": Policy(RULES)}
    records = (FIXTURES / recording).read_bytes().splitlines(keepends=True)
    async with daemon(tmp_path / "unbroken.db", **settings) as streams:
        publisher = await publish(streams, dialect="auto")
        await publisher.ingest.feed(b"".join(records))
        done = await end(publisher)
        expected = await events(journal_of(streams))
    assert any("display" in event for event in expected)

    for record in records:
        async with daemon(tmp_path / "journal.db", snapshot_bytes=snapshot_bytes, **settings) as streams:
            publisher = await publish(streams, dialect="auto")
            await publisher.ingest.feed(record)
            await publisher.ingest.finish()
    async with daemon(tmp_path / "journal.db", snapshot_bytes=snapshot_bytes, **settings) as streams:
        assert await end(await publish(streams)) == done
        assert await events(journal_of(streams)) == expected
    assert tables(tmp_path / "journal.db") == tables(tmp_path / "unbroken.db")


async def test_reopened_stream_continues_as_an_unbroken_one(tmp_path: Path) -> None:
    """Ended and reopened after every line: the ends differ, but nothing is lost or repeated."""
    path = tmp_path / "journal.db"
    for value in STREAM:
        async with daemon(path, limits=LIMITS) as streams:
            publisher = await publish(streams)
            await feed(publisher, value)
            await end(publisher)
    async with daemon(path, limits=LIMITS) as streams:
        found = await events(journal_of(streams))
        assert not [one for one in found if one["kind"] == "notice" and one["code"] == "parser-reset"]
        assert len({one["id"] for one in found}) == len(found)
        results = [(one["callId"], one["status"], one.get("replaces")) for one in found if one["kind"] == "tool-result"]
        assert results == [
            ("1", "interrupted", None),
            ("2", "interrupted", None),
            ("1", "completed", "s:4c:0"),  # a background task, which the next end closes again
            ("1", "interrupted", None),
            ("1", "completed", "s:14c:0"),
        ]


CHUNK = [
    write_tapped(b'{"do":"begin"}', NOW, "in"),
    write_tapped(b'{"do":"say","text":"a"}', NOW, "in"),
    write_tapped(b"", NOW, "in"),
    write_tapped(b'{"do":"say",\n"text":"b"}', NOW, "out"),
    write_tapped(b'{"do":"say","text":"c"}', NOW, "out"),
    write_tapped(b'{"do":"say","text":"d"}', NOW + 1, "out"),
    write_tapped(b'{"do":"say","text":"%b"}' % (b"x" * 5_000), NOW + 1, "out"),
    write_tapped(b'{"do":"call","id":"1","name":"Bash","input":{}}', NOW + 1, "out"),
    write_tapped(b"not json", NOW + 1, "out"),
    b'{"op":"lost","lines":2,"bytes":7,"reason":"full"}',
]


@pytest.mark.parametrize("chunk", [1, 3, len(CHUNK)])
async def test_lines_of_a_chunk_resume_as_single_lines(tmp_path: Path, chunk: int) -> None:
    limits = Limits(line_bytes=4_500)
    last = {"do": "result", "id": "1", "output": "x"}
    journaled, tails = [], []
    for name, size in (("single.db", 1), ("chunk.db", chunk)):
        async with daemon(tmp_path / name, limits=limits) as streams:
            publisher = await publish(streams)
            for start in range(0, len(CHUNK), size):
                await publisher.ingest.feed(b"".join(one + b"\n" for one in CHUNK[start : start + size]))
                await publisher.ingest._wait_until_durable()
            await publisher.ingest.finish()
            stored = await journal_of(streams).load_stream("s")
            assert stored is not None
            tails.append(stored.tail)
        async with daemon(tmp_path / name, limits=limits) as streams:
            publisher = await publish(streams)
            known = publisher.last(Ingesting)
            assert (known.lines, known.crc_line, known.crc) == (11, 9, f"{zlib.crc32(b'not json'):08x}")
            await publisher.lines(last)
            await end(publisher)
            journaled.append(await events(journal_of(streams)))

    assert journaled[0] == journaled[1]
    assert "parser-reset" not in {one.get("code") for one in journaled[0]}
    assert tails[0] == [one for record in tails[1] for one in each(record)]
    if chunk == len(CHUNK):
        wanted = [(Block, 3), (Block, 2), (inputs.Line, 1), (inputs.Line, 1), (Block, 2), (Lost, 2)]
        assert [(type(one), lines_of(one)) for one in tails[1]] == wanted
        assert [one.size is not None for one in tails[1] if isinstance(one, inputs.Line)] == [False, True]


async def test_stored_context_wins_over_the_publishers(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    for provider in ("first", "second"):
        async with daemon(path) as streams:
            publisher = await publish(streams, provider=provider, session=provider, agent=provider, dialect="toy")
            await publisher.lines({"do": "say", "text": "a"})
            await publisher.ingest.finish()
            found = await events(journal_of(streams))
    assert {(one["provider"], one["session"], one["agent"]) for one in found} == {("first",) * 3}


async def test_snapshot_replaces_a_long_tail(tmp_path: Path) -> None:
    async def tail_lengths(snapshot_bytes: int) -> list[int]:
        lengths = []
        path = tmp_path / f"{snapshot_bytes}.db"
        async with daemon(path, snapshot_bytes=snapshot_bytes) as streams:
            publisher = await publish(streams)
            for number in range(60):
                await publisher.lines({"do": "say", "text": "x" * 100})
                await publisher.ingest._wait_until_durable()
                stored = await journal_of(streams).load_stream("s")
                assert stored is not None
                assert stored.snapshot_lines + len(stored.tail) == number + 1
                lengths.append(len(stored.tail))
        return lengths

    assert set(await tail_lengths(0)) == {0}
    assert max(await tail_lengths(1024 * 1024)) == 60
    some = await tail_lengths(300)
    assert some[:2] == [1, 0]  # 186 bytes each
    assert max(some) > 3  # four times the snapshot is more than 300 bytes


# -- what cannot be rebuilt ---------------------------------------------------------------------------------------

OPEN = [
    {"do": "begin"},
    {"do": "session", "id": "root"},
    {"do": "call", "id": "1", "name": "Bash", "input": {"command": "ls"}, "agent": "child", "parent": "0"},
    {"do": "ask", "id": "p", "call": "1"},
]


async def suspended(path: Path, values: list[Any] = OPEN, **options: Any) -> None:
    async with daemon(path, **options) as streams:
        publisher = await publish(streams, dialect=options.get("dialect", "toy"))
        for value in values:
            await feed(publisher, value)
        await publisher.ingest.finish()


async def test_unknown_snapshot_version_resets_the_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    await suspended(path, snapshot_bytes=0)
    monkeypatch.setattr(live_stream, "SNAPSHOT_FORMAT", 2)
    monkeypatch.setattr("tooltap.daemon.ingest.streams.SNAPSHOT_FORMAT", 2)

    async with daemon(path, snapshot_bytes=0) as streams:
        before = await events(journal_of(streams))
        publisher = await publish(streams)
        await publisher.lines({"do": "result", "id": "1", "output": "late"}, {"do": "begin"})
        done = await end(publisher)
        after = (await events(journal_of(streams)))[len(before) :]

    assert [(one["id"], one["kind"]) for one in after] == [
        ("s:4d:6", "permission-response"),
        ("s:4d:7", "tool-result"),
        ("s:4d:8", "notice"),
        ("s:5:0", "tool-result"),
        ("s:6:0", "turn"),
        ("s:6c:0", "turn"),
    ]
    expired, closed, notice, late, turn, _ = after
    assert (expired["permissionId"], expired["outcome"], expired["synthetic"]) == ("p", "expired", True)
    assert {
        key: closed[key] for key in ("callId", "name", "status", "synthetic", "session", "agent", "parent", "turn")
    } == {
        "callId": "1",
        "name": "Bash",
        "status": "interrupted",
        "synthetic": True,
        "session": "root",
        "agent": "child",
        "parent": "0",
        "turn": "t1",
    }
    assert (notice["code"], notice["session"], notice["level"]) == ("parser-reset", "root", "warning")
    assert late["replaces"] == "s:4d:7"
    assert turn["turn"] == "t2"
    assert done.lines == 6
    assert done.events == len(before) + len(after)


class Upgraded(Toy):
    """Emits one more event per line than it used to."""

    def read(self, value: Line) -> Skip:
        self.notice("config", "new")
        return super().read(value)


async def test_tail_with_other_ids_resets_the_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    await suspended(path)
    monkeypatch.setattr("tooltap.normalizers.stream.normalizer.parser_class", lambda name: Upgraded)

    async with daemon(path) as streams:
        before = len(await events(journal_of(streams)))
        publisher = await publish(streams)
        await publisher.lines({"do": "say", "text": "on"})
        await publisher.ingest.finish()
        kinds = [one["kind"] for one in (await events(journal_of(streams)))[before:]]
    assert kinds == ["permission-response", "tool-result", "notice", "notice", "message"]

    async with daemon(path) as streams:  # rebuilt once more from here
        publisher = await publish(streams)
        await publisher.lines({"do": "say", "text": "on"})
        await publisher.ingest.finish()
        assert [one["kind"] for one in (await events(journal_of(streams)))[-2:]] == ["notice", "message"]
        assert sum(one.get("code") == "parser-reset" for one in await events(journal_of(streams))) == 1


async def test_abandoned_reset_stream_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    await suspended(path, snapshot_bytes=0)
    monkeypatch.setattr("tooltap.daemon.ingest.streams.SNAPSHOT_FORMAT", 2)
    clock = Clock()
    async with daemon(path, clock, suspend_timeout_ms=10) as streams:
        clock.now += 11
        assert await streams.close_overdue() == 1
        assert await journal_of(streams).open_calls() == {"calls": [], "permissions": []}
        assert (await events(journal_of(streams)))[-1]["code"] == "parser-reset"


async def test_expired_stream_resumes_with_a_reset(tmp_path: Path) -> None:
    clock = Clock()
    async with daemon(tmp_path / "journal.db", clock) as streams:
        publisher = await publish(streams)
        await publisher.lines({"do": "say", "text": "old"})
        await end(publisher)
        clock.now += 10
        assert await journal_of(streams).expire(clock.now) == 1

        again = await publish(streams)
        assert (again.last(Ingesting).state, again.last(Ingesting).lines) == ("ended", 1)
        await end(again)
        assert await events(journal_of(streams)) == []  # reading changes nothing

        again = await publish(streams)
        await again.lines({"do": "say", "text": "new"})
        assert (await end(again)).lines == 2
        found = await events(journal_of(streams))
        assert [(one["id"], one["kind"]) for one in found] == [("s:1d:1", "notice"), ("s:2:0", "message")]


@pytest.mark.parametrize("deletes", ["expire", "remove_session"])
async def test_stream_that_is_deleted_while_it_has_a_publisher_continues(tmp_path: Path, deletes: str) -> None:
    """Once: what it has loaded before is not stored again, and its fresh parser is."""
    clock = Clock()
    path = tmp_path / "journal.db"
    async with daemon(path, clock) as streams:
        publisher = await publish(streams)
        await publisher.lines({"do": "session", "id": "named"}, {"do": "say", "text": "old"})
        await end(publisher)
        clock.now += 10
        journal = journal_of(streams)
        again = await publish(streams)
        assert await (journal.expire(clock.now) if deletes == "expire" else journal.remove_session("named"))
        assert await events(journal) == []

        for text in ("new", "newer"):
            await again.lines({"do": "say", "text": text})
            await again.ingest.suspend()
            again = await publish(streams)
        assert again.last(Ingesting).lines == 4
        notice, *found = await events(journal)
        assert (notice["code"], notice["session"]) == ("parser-reset", "named")
        assert [(one["id"], one["text"]) for one in found] == [("s:3:0", "new"), ("s:4:0", "newer")]
        assert journal.statistics()["damages"] == 0
    assert list(check_file(path)) == []


async def test_newer_sniffer_reads_held_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    monkeypatch.setitem(builtin(), "toy", TOY._replace(recognises=lambda value: False))
    async with daemon(path, snapshot_bytes=0) as streams:
        publisher = await publish(streams, dialect="auto")
        await publisher.lines({"do": "say", "text": "a"}, {"do": "say", "text": "b"})
        await publisher.ingest.finish()
        assert await events(journal_of(streams)) == []

    monkeypatch.setitem(builtin(), "toy", TOY)
    for text in ("c", "d"):
        async with daemon(path, snapshot_bytes=1_000_000) as streams:
            publisher = await publish(streams, dialect="auto")
            await publisher.lines({"do": "say", "text": text})
            await publisher.ingest.finish()
            found = await events(journal_of(streams))
    assert [(one["id"], one["text"]) for one in found] == [
        ("s:1:0", "a"),
        ("s:2:0", "b"),
        ("s:3:0", "c"),
        ("s:4:0", "d"),
    ]
