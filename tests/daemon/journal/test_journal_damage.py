"""A damaged file: nothing garbled is served, what is intact is, and what is damaged is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.publishing import daemon, journal_of, publish
from tooltap.daemon.journal.interface import CorruptError, StoredEvent
from tooltap.daemon.journal.sqlite import journal as sqlite_journal
from tooltap.daemon.journal.sqlite.damage import Damages
from tooltap.daemon.journal.sqlite.file import HighWater, HighWaterFile, high_water_path
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.streams import load_stream
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import SessionEvent
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.inputs import Line

pytestmark = pytest.mark.anyio

EVENTS = 400
PAGE = 8_192


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


async def fill(path: Path) -> list[StoredEvent]:
    """A journal of some pages, all of it in the main file."""
    journal = await SqliteJournal.open(path)
    for number in range(EVENTS // 4):
        stream = f"s{number % 2}"
        outputs = [
            event(SessionEvent, stream, session=f"one-{stream}", state="updated", title=f"title {number}"),
            message(f"text {number} " + "x" * 200, stream),
            call(f"c{number}", stream=stream),
            result(f"c{number}", stream=stream),
        ]
        chunk = OutputChunk(f"out:{number}", 0, f"line {number}\n".encode() * 100, "text/plain")
        tail = [Line(f"line {number}".encode())]
        await journal.commit(commit(*outputs, chunk, stream=stream, base=number // 2, tail=tail))
    events, _ = await journal.read(0, max_bytes=10**9)
    await journal.close()
    return events


def damage(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(sql, values).rowcount


async def test_damage_elsewhere_is_not_taken_for_damage_of_a_deleted_stream(path: Path) -> None:
    """Other threads add to the same register while a stream is loaded."""
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("a"), state="ended", tail=[Line(b"a")]))
    await journal.remove_session("session-1")
    await journal.close()
    damages = Damages()
    with closing(sqlite3.connect(path)) as database:
        database.set_trace_callback(lambda sql: damages.add("events", 1) if "FROM tail" in sql else None)
        loaded = load_stream(database, "s", damages)

    assert loaded is not None
    assert loaded.stored.info.lines == 1
    assert damages.by_table == {"events": 1}


async def everything(journal: SqliteJournal, wanted: Filter = ALL_EVENTS, max_bytes: int = 5_000) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    after = 0
    while after < journal.latest:
        events, after = await journal.read(after, wanted, max_bytes=max_bytes)
        found += events
    return found


COLUMNS: dict[str, str] = {
    "body": "UPDATE events SET body=CAST(replace(CAST(body AS TEXT), 'a', 'b') AS BLOB) WHERE seq=?",
    "type": "UPDATE events SET body=CAST(body AS TEXT) WHERE seq=?",
    "source": "UPDATE events SET source=3-source WHERE seq=?",
    "label": "UPDATE events SET label=label+1 WHERE seq=?",
    "agent": "UPDATE events SET agent='child' WHERE seq=?",
    "no agent": "UPDATE events SET agent=x'ff' WHERE seq=?",
    "checksum": "UPDATE events SET checksum=checksum+1 WHERE seq=?",
    "seq": "UPDATE events SET seq=1000000 WHERE seq=?",
    "row": "DELETE FROM events WHERE seq=?",
}


@pytest.mark.parametrize("sql", COLUMNS.values(), ids=COLUMNS)
async def test_damaged_event_is_left_out_and_named(path: Path, sql: str) -> None:
    before = await fill(path)
    damage(path, sql, 100)
    journal = await SqliteJournal.open(path)
    try:
        with pytest.raises(CorruptError, match="event 100 is damaged in the journal"):
            await journal.event(100)
        assert await journal.event(101) == before[100]
        assert await everything(journal) == [one for one in before if one.seq != 100]
        assert list(journal.corrupt) == [(100, 100)]
        back, reached = await journal.read_back(103, limit=4)
        assert [one.seq for one in back] == [102, 101, 99, 98]
        assert reached == 98
        # Asked for one by one, they are the same.
        assert await everything(journal, max_bytes=1) == [one for one in before if one.seq != 100]
    finally:
        await journal.close()


async def test_event_that_is_missing_beside_a_known_gap_is_another(path: Path) -> None:
    await fill(path)
    damage(path, COLUMNS["row"], 100)
    journal = await SqliteJournal.open(path)
    try:
        await journal.read(0, max_bytes=10**9)
        assert list(journal.corrupt) == [(100, 100)]
        damage(path, COLUMNS["row"], 150)
        await journal.read(0, max_bytes=10**9)
        assert list(journal.corrupt) == [(100, 100), (150, 150)]
        damage(path, COLUMNS["row"], 200)
        await journal.read_back(EVENTS + 1, limit=EVENTS, max_bytes=10**9)
        assert list(journal.corrupt) == [(100, 100), (150, 150), (200, 200)]
    finally:
        await journal.close()


async def test_stream_without_its_row_is_known_from_its_last_event(path: Path) -> None:
    await fill(path)
    damage(path, "DELETE FROM streams WHERE stream='s0'")
    journal = await SqliteJournal.open(path)
    try:
        stored = await journal.load_stream("s0")
        assert stored is not None
        assert (stored.info.lines, stored.info.provider, stored.info.session) == (50, "gemini", "session-1")
        assert (stored.snapshot, stored.snapshot_lines, stored.tail) == (None, 0, [])
    finally:
        await journal.close()


def test_damage_is_counted_once() -> None:
    damages = Damages()
    for name in ("one", "two", "one"):
        damages.add("streams", name)
    assert (damages.found, damages.by_table) == (2, {"streams": 2})


async def test_filter_gets_no_damaged_event(path: Path) -> None:
    before = await fill(path)
    damage(path, COLUMNS["body"], 102)
    journal = await SqliteJournal.open(path)
    wanted = Filter(kind=("message",))
    try:
        messages = [one for one in before if one.seq % 4 == 2]
        assert await everything(journal, wanted) == [one for one in messages if one.seq != 102]
        assert journal.corrupt.within(1, EVENTS) == [(102, 102)]
        back, _ = await journal.read_back(EVENTS + 1, wanted, limit=EVENTS)
        assert back[::-1] == [one for one in messages if one.seq != 102]
    finally:
        await journal.close()


async def test_large_journal_is_surveyed_while_readers_with_a_filter_go_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(path)
    damage(path, "DELETE FROM events WHERE seq=17")
    monkeypatch.setattr(sqlite_journal, "SURVEYED_FIRST", 0)
    journal = await SqliteJournal.open(path)
    wanted = Filter(session=("one-s0",))
    first, _ = await journal.read(0, wanted)
    assert journal._surveying is not None
    await journal._surveying
    await journal.read(0, wanted)
    await journal.close()

    assert first
    assert list(journal.corrupt) == [(17, 17)]


async def test_events_around_a_zeroed_page_are_served(path: Path) -> None:
    before = await fill(path)
    page = leaf_of(path, 200)
    rewrite(path, page, lambda _: bytes(PAGE))
    journal = await SqliteJournal.open(path)
    try:
        found = await everything(journal)
        assert [one for one in before if one in found] == found
        missing = [one.seq for one in before if one not in found]
        assert 200 in missing
        assert len(missing) < 60
        assert list(journal.corrupt) == [(missing[0], missing[-1])]
        assert missing == list(range(missing[0], missing[-1] + 1))
        back, _ = await journal.read_back(EVENTS + 1, limit=EVENTS, max_bytes=10**9)
        assert back[::-1] == found
        with pytest.raises(CorruptError):
            await journal.event(200)
    finally:
        await journal.close()


def rewrite(path: Path, page: int, change: Callable[[bytes], bytes]) -> None:
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE)
        data = change(file.read(PAGE))
        file.seek((page - 1) * PAGE)
        file.write(data)


def leaf_of(path: Path, seq: int) -> int:
    """The page of an event."""
    needle = f'"id":"s{(seq - 1) // 4 % 2}'.encode()
    with closing(sqlite3.connect(path)) as database:
        (body,) = database.execute("SELECT body FROM events WHERE seq=?", (seq,)).fetchone()
    assert needle in body
    data = path.read_bytes()
    return data.index(body) // PAGE + 1


async def test_damaged_output_is_refused_and_the_rest_served(path: Path) -> None:
    await fill(path)
    damage(path, "UPDATE contents SET data=zeroblob(length(data)) WHERE id=5")
    damage(path, "UPDATE bodies SET bytes=bytes+1 WHERE id=7")
    damage(path, "UPDATE pieces SET content=9 WHERE body=8")
    damage(path, "DELETE FROM pieces WHERE body=10")
    journal = await SqliteJournal.open(path)
    try:
        for number in range(12):
            if number + 1 in (5, 7, 8, 10):
                for unit in ("bytes", "lines"):
                    with pytest.raises(CorruptError, match=f"output out:{number} is damaged in the journal"):
                        await journal.output(f"out:{number}", 0, 10_000, unit)
            else:
                found = await journal.output(f"out:{number}", 0, 10_000, "bytes")
                assert found is not None
                assert found.data == f"line {number}\n".encode() * 100
    finally:
        await journal.close()


async def test_lost_log_is_a_gap_and_its_numbers_are_not_given_again(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("kept")))
    await journal.close()
    journal = await SqliteJournal.open(path)
    lost = path.read_bytes(), high_water_path(path)
    await journal.commit(commit(message("lost"), message("lost too"), base=1))
    tip = lost[1].read_bytes()
    await journal.close()
    path.write_bytes(lost[0])
    high_water_path(path).write_bytes(tip)

    journal = await SqliteJournal.open(path)
    try:
        assert journal.latest == 3
        assert list(journal.corrupt) == [(2, 3)]
        await journal.commit(commit(message("next"), base=1))
        assert [one.seq for one in await everything(journal)] == [1, 4]
        assert journal.statistics()["damages"] == 1
    finally:
        await journal.close()
    journal = await SqliteJournal.open(path)  # and it stays so
    assert list(journal.corrupt) == [(2, 3)]
    assert [one.seq for one in await everything(journal)] == [1, 4]
    assert journal.statistics()["damages"] == 0
    await journal.close()


META = ["id", "next_seq", "expired", "tally"]


@pytest.mark.parametrize("key", META)
async def test_what_the_journal_says_of_itself_is_restored(path: Path, key: str) -> None:
    before = await fill(path)
    journal = await SqliteJournal.open(path)
    name = journal.id
    await journal.close()
    damage(path, "UPDATE meta SET value='77' WHERE key=?", key)

    journal = await SqliteJournal.open(path)
    try:
        assert (journal.id, journal.latest, journal.last_expired) == (name, EVENTS, 0)
        assert await everything(journal) == before
        assert journal.statistics()["damages"] == 1
    finally:
        await journal.close()


STREAM = {
    "info": "UPDATE streams SET info=zeroblob(length(info))",
    "lines": "UPDATE streams SET lines=lines+7",
    "state": "UPDATE streams SET state='broken'",
    "snapshot": "UPDATE snapshots SET data=zeroblob(length(data))",
    "tail": "UPDATE tail SET records=zeroblob(length(records)) WHERE id=(SELECT max(id) FROM tail)",
    "tail row": "DELETE FROM tail WHERE id=(SELECT min(id) FROM tail)",
}


@pytest.mark.parametrize("part", STREAM)
@pytest.mark.parametrize("snapshot_bytes", [1, 1_000_000])
async def test_stream_resumes_at_its_line_whatever_of_it_is_damaged(path: Path, part: str, snapshot_bytes: int) -> None:
    dialect = "claude-stream" if part == "snapshot" else "auto"  # a stream that is not recognised yet has a tail alone
    sql = STREAM[part]
    lines = [{"text": f"text {number}"} for number in range(12)]
    async with daemon(path, snapshot_bytes=1 if part == "snapshot" else snapshot_bytes) as streams:
        publisher = await publish(streams, dialect=dialect)
        for line in lines[:7]:
            await publisher.lines(line)
        await publisher.ingest.finish()
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(sql).rowcount

    async with daemon(path) as streams:
        publisher = await publish(streams, dialect=dialect)
        assert publisher.frames[0].lines == 7  # type: ignore[union-attr]
        await publisher.lines(*lines[7:])
        await publisher.record(op="end")
        await publisher.ingest.finish()
        journal = journal_of(streams)
        assert journal.statistics()["damages"] >= 1
        info = (await journal.streams())[0]
        assert (info.lines, info.state) == (12, "ended")


async def test_emptied_file_is_the_journal_that_it_was(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    name = journal.id
    await journal.commit(commit(message("one"), message("two")))
    await journal.close()
    path.write_bytes(b"")

    journal = await SqliteJournal.open(path)
    assert (journal.id, journal.latest, list(journal.corrupt)) == (name, 2, [(1, 2)])
    await journal.close()
    path.unlink()  # this asks for a fresh start
    journal = await SqliteJournal.open(path)
    assert journal.id != name
    assert (journal.latest, list(journal.corrupt)) == (0, [])
    await journal.close()


async def test_tip_that_cannot_be_written_stops_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: HighWaterFile, tip: HighWater) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(HighWaterFile, "write", fail)
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("one")))
    await journal.commit(commit(message("two"), base=1))
    assert len(await everything(journal)) == 2
    await journal.close()
