"""Every journal: what is committed is there, in order, entirely or not at all."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, message
from tests.daemon.journal.whole import everything, numbers, texts, until_published
from tooltap.daemon.journal.interface import (
    Committed,
    CorruptError,
    Journal,
    StoredEvent,
    StreamConflictError,
    UnstorableError,
)
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import decode
from tooltap.protocol.filters import ALL_EVENTS, Filter, meta_of
from tooltap.protocol.inputs import Block, Input, Line, Lost

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


@pytest.fixture
async def sqlite_journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = await SqliteJournal.open(path)
    yield journal
    await journal.close()


# -- events -------------------------------------------------------------------------------------------------------


async def test_new_journal_is_empty(journal: Journal) -> None:
    assert (journal.oldest, journal.latest, journal.last_expired) == (1, 0, 0)
    assert await journal.read(0) == ([], 0)


async def test_events_are_read_in_order(journal: Journal) -> None:
    await journal.commit(commit(message("a"), message("b")))
    await journal.commit(commit(message("c"), base=1))

    events, looked = await journal.read(0)

    first, second, third = [one.seq for one in events]
    assert 0 < first < second < third <= looked == journal.latest
    assert texts(events) == ["a", "b", "c"]
    assert await journal.read(first, up_to=second) == (events[1:2], second)
    assert await journal.event(second) == events[1]
    assert await journal.event(third + 1) is None
    assert await journal.event(third + 10_000) is None


async def test_read_is_bounded_but_returns_one_event(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    await journal.commit(commit(*(message("x" * 300) for _ in range(5))))

    assert [one.seq for one in (await journal.read(0, max_bytes=1))[0]] == [1]
    events, looked = await journal.read(1, max_bytes=800)
    assert [one.seq for one in events] == [2, 3]
    assert looked == 3


async def test_filter_is_or_within_and_between_keys(journal: Journal) -> None:
    await journal.commit(commit(message("m"), call("1"), call("2", name="Read", agent="child")))
    await journal.commit(commit(message("other"), call("3", stream="t"), stream="t"))

    number = await numbers(journal)

    async def seqs(**keys: tuple[str, ...]) -> list[int]:
        wanted = Filter(**keys)
        events = await everything(journal, wanted)
        assert all(wanted.matches(meta_of(decode(one.body))) for one in events)
        return [number[one.seq] for one in events]

    assert await seqs(kind=("tool-call",)) == [2, 3, 5]
    assert await seqs(tool=("Bash", "Read")) == [2, 3, 5]
    assert await seqs(tool=("sh",), stream=("t",)) == [5]
    assert await seqs(agent=("child",)) == [3]
    assert await seqs(session=("nobody",)) == []


async def test_filter_without_match_needs_one_read(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.reader.WINDOW", 3)
    await journal.commit(commit(*(message(str(n)) for n in range(10)), call("1")))

    (found,), _ = await journal.read(0, Filter(kind=("tool-call",)))
    assert (await numbers(journal))[found.seq] == 11
    assert await journal.read(0, Filter(kind=("usage",))) == ([], journal.latest)


@pytest.mark.parametrize(
    "wanted",
    [
        ALL_EVENTS,
        Filter(kind=("tool-call",)),
        Filter(stream=("s",)),
        Filter(session=("session-2",), kind=("message",)),
        Filter(kind=("usage",)),
    ],
    ids=["all", "kind", "stream", "session", "nothing"],
)
@pytest.mark.parametrize(("limit", "max_bytes"), [(1, 10_000), (3, 10_000), (100, 10_000), (100, 700), (100, 1)])
async def test_reading_back_returns_the_same_events(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, wanted: Filter, limit: int, max_bytes: int
) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.reader.WINDOW", 3)
    monkeypatch.setattr("tooltap.daemon.journal.nats.events.WINDOW", 1)
    for line in range(4):
        await journal.commit(commit(message(f"s{line}"), call(f"{line}"), message("x" * 300), base=line))
        other = message(f"t{line}", "t", session="session-2")
        await journal.commit(commit(other, call(f"{line}", "t"), stream="t", base=line))

    found: list[StoredEvent] = []
    before = 2**63 - 1
    while before > journal.oldest:
        page, looked = await journal.read_back(before, wanted, limit=limit, max_bytes=max_bytes)
        assert len(page) <= limit
        assert sum(len(one.body) for one in page[:-1]) < max_bytes
        assert all(looked <= one.seq < before for one in page)
        assert page or looked <= journal.oldest
        found += page
        before = looked

    assert found == (await everything(journal, wanted))[::-1]
    assert await journal.read_back(before, wanted, limit=1) == ([], before)


async def test_reading_back_in_a_new_journal_ends_at_once(journal: Journal) -> None:
    assert await journal.read_back(1, limit=1) == ([], 1)
    assert await journal.read_back(2**63 - 1, Filter(kind=("usage",)), limit=1) == ([], 1)


async def test_commits_are_published_in_order(journal: Journal) -> None:
    published: list[Committed] = []
    journal.on_commit = published.extend
    piece = OutputChunk("s:1:o0", 0, b"body", "text/plain")
    partial = message("pre", partial=True)

    await journal.commit(commit(piece, partial, message("final")))
    await until_published(journal)

    (final,) = await everything(journal)
    assert [one.seqs for one in published] == [[None, None, final.seq]]
    assert texts([final]) == ["final"]


async def test_many_streams_at_once_lose_nothing(journal: Journal) -> None:
    seqs: list[int | None] = []
    journal.on_commit = lambda committed: seqs.extend(seq for one in committed for seq in one.seqs)

    async def publish(stream: str) -> None:
        for line in range(20):
            await journal.commit(commit(message(f"{stream}-{line}", stream), stream=stream, base=line))

    await asyncio.gather(*(publish(f"s{n}") for n in range(20)))

    await until_published(journal)
    assert seqs == [one.seq for one in await everything(journal)]
    statistics = journal.statistics()
    assert statistics["commits"] == statistics["events"] == len(seqs) == 400
    if isinstance(journal, SqliteJournal):
        assert statistics["transactions"] < 400
    own = await everything(journal, Filter(stream=("s7",)))
    assert texts(own) == [f"s7-{line}" for line in range(20)]


async def test_seq_is_never_reused(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("a"), message("b"), state="ended", updated=1))
    assert await journal.expire(10) == 2
    assert (journal.oldest, journal.latest, journal.last_expired) == (3, 2, 2)
    await journal.close()

    journal = await SqliteJournal.open(path)
    assert (journal.oldest, journal.latest, journal.last_expired) == (3, 2, 2)
    await journal.commit(commit(message("c", "t"), stream="t"))
    assert (journal.oldest, journal.latest) == (3, 3)
    await journal.close()


# -- streams ------------------------------------------------------------------------------------------------------


async def test_conflicting_commit_is_refused_alone(journal: Journal) -> None:
    await journal.commit(commit(message("a"), lines=3))

    results = await asyncio.gather(
        journal.commit(commit(message("t", "t"), stream="t")),
        journal.commit(commit(message("wrong"), base=1)),
        journal.commit(commit(message("u", "u"), stream="u")),
        return_exceptions=True,
    )

    assert [type(one) for one in results] == [type(None), StreamConflictError, type(None)]
    assert texts(await everything(journal)) == ["a", "t", "u"]


async def test_unstorable_commit_is_refused_alone(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    too_large_for_sqlite = 2**63

    results = await asyncio.gather(
        journal.commit(commit(message("t", "t"), stream="t")),
        journal.commit(commit(message("wrong"), lines=too_large_for_sqlite)),
        journal.commit(commit(message("u", "u"), stream="u")),
        return_exceptions=True,
    )

    assert [type(one) for one in results] == [type(None), UnstorableError, type(None)]
    events = await everything(journal)
    assert (texts(events), [one.seq for one in events]) == (["t", "u"], [1, 2])
    assert await journal.load_stream("s") is None


async def test_snapshot_replaces_the_tail(journal: Journal) -> None:
    lines: list[Input] = [Line(b"one", 1, "out"), Lost(2, 5, "full")]
    await journal.commit(commit(lines=3, tail=lines, session="x", asked_dialect="acp"))
    await journal.commit(commit(base=3, tail=[Line(b"head", size=10**9)], session="x"))

    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.info.lines, stored.info.session, stored.snapshot, stored.snapshot_lines) == (4, "x", None, 0)
    assert stored.tail == [*lines, Line(b"head", size=10**9)]

    await journal.commit(commit(base=4, tail=lines, snapshot=b"state"))
    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.snapshot, stored.snapshot_lines, stored.tail) == (b"state", 5, [])
    assert await journal.load_stream("unknown") is None


async def test_lines_of_a_chunk_are_one_record(journal: Journal) -> None:
    block = Block([b"one", b"", b"a\nb"], 1, "out")
    await journal.commit(commit(lines=3, tail=[block]))

    stored = await journal.load_stream("s")
    assert stored is not None
    assert stored.tail == [block]


async def test_an_error_of_reading_once_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says that the file is damaged when the system could not read it."""
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(state="open"))
    put, errors = journal._writer.put, [CorruptError("the journal is damaged")]

    async def fail_once(work: Any) -> Any:
        if errors:
            raise errors.pop()
        return await put(work)

    monkeypatch.setattr(journal._writer, "put", fail_once)

    assert await journal.suspend_all() == 1
    assert journal.statistics()["damages"] == 0
    await journal.close()


async def test_abandoned_streams_are_found_without_reading_the_others(path: Path) -> None:
    """A damaged row of another one is not noticed."""
    journal = await SqliteJournal.open(path)
    for stream, state, updated in (
        ("open", "open", 6),
        ("old", "suspended", 5),
        ("new", "suspended", 8),
        ("ended", "ended", 1),
    ):
        await journal.commit(commit(stream=stream, state=state, updated=updated))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE streams SET checksum=0 WHERE stream IN ('new', 'ended')")
    assert await journal.abandoned(7) == ["old", "open"]
    assert journal.statistics()["damages"] == 0
    await journal.close()


async def test_positions_in_files_are_those_of_the_streams(path: Path) -> None:
    """Newest first; that of a damaged row is taken from what is intact."""
    journal = await SqliteJournal.open(path)
    for stream, updated in (("a", 5), ("b", 7), ("c", 6)):
        await journal.commit(commit(stream=stream, updated=updated))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE streams SET checksum=0 WHERE stream='a'")
    positions, infos = await journal.file_positions(), await journal.streams()
    slow = await Journal.file_positions(journal)
    await journal.close()

    assert [one.stream for one in positions[:2]] == ["b", "c"]
    assert sorted(positions, key=lambda one: one.stream) == sorted(slow, key=lambda one: one.stream)
    assert [(one.lines, one.statistics.lines, one.updated) for one in positions[:2]] == [
        (info.lines, info.statistics.lines, info.updated) for info in infos if info.stream in "bc"
    ]


async def test_restart_suspends_open_streams(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    for stream, state in (("a", "open"), ("b", "ended"), ("c", "suspended")):
        await journal.commit(commit(stream=stream, state=state, updated=5))
    await journal.close()

    journal = await SqliteJournal.open(path, clock=lambda: 77)
    assert await journal.suspend_all() == 1
    assert [(one.stream, one.updated) for one in await journal.streams("suspended")] == [("a", 77), ("c", 5)]
    assert [(one.stream, one.state) for one in await journal.streams()] == [
        ("a", "suspended"),
        ("c", "suspended"),
        ("b", "ended"),
    ]
    assert [one.stream for one in await journal.streams(limit=1)] == ["a"]
    assert (await journal.count_streams("ended"), await journal.count_streams("open", "suspended")) == (1, 2)
    await journal.commit(commit(stream="d", state="suspended", followed=True))
    assert await journal.count_streams("suspended", followed=True) == 1
    assert await journal.count_streams("open", "suspended", followed=False) == 2
    await journal.close()
