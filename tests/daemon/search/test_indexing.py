"""The index itself: it is the same however often its daemon dies, and what was deleted is not in it."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.search.searching import all_events, contents, searched
from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.search import index as index_module
from tooltap.daemon.search import indexer as indexer_module
from tooltap.daemon.search.index import Ids, Index
from tooltap.daemon.search.search import Search, UnavailableError

pytestmark = pytest.mark.anyio

KILLS = int(os.environ.get("TOOLTAP_KILLS", "4"))
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]

LETTERS = "bcdefghijk"
"""Words that begin differently are on the disk as they are."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def _texts(count: int) -> list[StoredEvent]:
    chosen = random.Random(7)
    texts = (f"{' '.join(chosen.choices(WORDS, k=8))} n{number}" for number in range(count))
    return [
        StoredEvent(seq, message(text, f"s{seq % 5}", session=f"session-{seq % 5}").body)
        for seq, text in enumerate(texts, 1)
    ]


def _index_all(path: str, count: int, batch: int, part: int, most: int, ready: object) -> None:
    """The child process: continue where the index is, and tell how far it is. After `most` batches it waits until it is
    killed, for a parent that a busy machine holds up."""
    index_module.PART_DOCUMENTS = part
    index = Index(Path(path), "journal")
    events = _texts(count)
    while index.upto < count:
        if not most:
            signal.pause()
        most -= 1
        index.add(events[index.upto : index.upto + batch], min(index.upto + batch, count))
        ready.send(index.upto)  # type: ignore[attr-defined]
    index.close()


@pytest.mark.process
def test_an_indexer_that_is_killed_makes_the_same_index(tmp_path: Path) -> None:
    """`TOOLTAP_KILLS`: how often it is killed."""
    count, batch, part = 250 * (KILLS + 4), 25, 400
    chosen = random.Random(11)
    path = tmp_path / "killed"
    killed = 0
    while True:
        reading, sending = _processes.Pipe(duplex=False)
        batches = chosen.randint(1, 9) if killed < KILLS else count
        process = _processes.Process(target=_index_all, args=(str(path), count, batch, part, batches + 1, sending))
        process.start()
        sending.close()
        upto = 0
        try:
            for _ in range(batches):
                upto = reading.recv()  # at any moment after this it is in the middle of the next batch
        except EOFError:
            pass
        if killed < KILLS:
            process.kill()
            killed += 1
        process.join()
        if upto == count:
            break
    reading, sending = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_index_all, args=(str(tmp_path / "clean"), count, 600, part, count, sending))
    process.start()
    process.join()
    assert killed == KILLS
    made = contents(path)
    assert len(made[1]) == count
    assert made == contents(tmp_path / "clean")


def test_a_document_of_a_crowded_second_looks_at_few_others() -> None:
    crowd, second = 2_000, 1_000
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE docs_1 (id INTEGER PRIMARY KEY)")
    connection.execute("CREATE TABLE slots (part INTEGER, slot INTEGER, source INTEGER)")
    connection.execute("CREATE TABLE parts (id INTEGER, high INTEGER)")
    ids = Ids(connection, 1)

    def add(source: int, when: int) -> int | None:
        number = ids.take(source, when)
        connection.execute("INSERT INTO docs_1 VALUES (?)", (number,))
        return number

    taken = {add(source, second) for source in range(crowd)} | {add(0, second + 1)}
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(step, 1)
    late = [add(0, second) for _ in range(4)]
    assert steps < crowd
    assert len(taken | {*late}) == crowd + 1 + len(late)
    connection.close()


def _on_disk(path: Path, word: str) -> bool:
    return any(word.encode() in one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


async def _clean(journal: Journal, path: Path) -> tuple[list[Any], list[Any]]:
    """What a new index of the journal has."""
    async with searched(journal, path) as index:
        await index.settle()
    return contents(path)


async def test_what_was_deleted_is_gone_from_the_disk(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "PART_DOCUMENTS", 40)
    monkeypatch.setattr(indexer_module, "BATCH", 20)
    path = tmp_path / "index" / "search"
    path.parent.mkdir()
    for number in range(10):
        stream, session = f"s{number}", f"session-{number}"
        texts = [message(f"{LETTERS[number]}secret word {one}", stream, session=session) for one in range(20)]
        await sqlite_journal.commit(commit(*texts, stream=stream, state="ended"))
    left = {f"session-{number}": 20 for number in range(10) if number != 3}
    async with searched(sqlite_journal, path) as index:
        assert len((await index.find("word")).hits) == 200
        assert _on_disk(path, f"{LETTERS[3]}secret")
        await sqlite_journal.remove_session("session-3")
        # At once they are in no answer.
        assert Counter(one.session for one in (await index.find_now("word")).hits) == left
        index.search.note_deleted(soon=True)
        assert {one.session: one.hits for one in (await index.find("word")).tallies} == left
        assert not _on_disk(path, f"{LETTERS[3]}secret")
        assert _on_disk(path, f"{LETTERS[4]}secret")
    made = contents(path)
    assert made == await _clean(sqlite_journal, tmp_path / "clean")
    # What was deleted while no daemon ran, too.
    await sqlite_journal.remove_session("session-4")
    async with searched(sqlite_journal, path) as index:
        await index.settle()
        assert not _on_disk(path, f"{LETTERS[4]}secret")
        assert _on_disk(path, f"{LETTERS[5]}secret")
    assert contents(path) == await _clean(sqlite_journal, tmp_path / "other")


async def test_a_part_that_was_built_again_by_half(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends between two batches of a part that is built again."""
    monkeypatch.setattr(indexer_module, "BATCH", 20)
    path = tmp_path / "search"
    for stream in ("a", "b", "c"):
        texts = [message(f"word {stream} {one}", stream, session=stream) for one in range(30)]
        await sqlite_journal.commit(commit(*texts, stream=stream, state="ended"))
    async with searched(sqlite_journal, path) as index:
        await index.settle()
    await sqlite_journal.remove_session("b")
    again = Index(path, sqlite_journal.id)
    source = next(one for one in again.sources() if one.stream == "b")
    again.forget([(source, None)])
    part = again.stale()
    assert part is not None
    again.build(part, (await all_events(sqlite_journal))[:25], 25)
    again.close()
    async with searched(sqlite_journal, path) as index:
        assert len((await index.find("word")).hits) == 60
    assert contents(path) == await _clean(sqlite_journal, tmp_path / "clean")


async def test_answer_says_how_much_is_being_built_again(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, events that were not deleted are missing from it."""
    held, build = anyio.Event(), indexer_module.Indexer._build

    async def waiting(self: indexer_module.Indexer, index: Index) -> bool:
        await held.wait()
        return await build(self, index)

    for stream in ("a", "b", "c"):
        texts = [message(f"word {stream} {one}", stream, session=stream) for one in range(30)]
        await sqlite_journal.commit(commit(*texts, stream=stream, state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        whole = await index.find("word")
        assert (len(whole.hits), whole.behind) == (90, 0)
        monkeypatch.setattr(indexer_module.Indexer, "_build", waiting)
        await sqlite_journal.remove_session("b")
        index.search.note_deleted(soon=True)
        with anyio.fail_after(60):
            while not (answer := await index.find_now("word")).behind:
                await anyio.sleep(0.02)
            assert (answer.hits, answer.behind) == ([], 90)
            while (index.search.statistics() or {}).get("behind") != 90:  # counted after the index was emptied
                await anyio.sleep(0.02)
        held.set()
        whole = await index.find("word")
        assert (len(whole.hits), whole.behind) == (60, 0)


async def test_an_index_of_another_journal_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "search"
    for name, texts in (("one.db", ["first word"]), ("two.db", ["second word", "third word"])):
        journal = await SqliteJournal.open(tmp_path / name)
        await journal.commit(commit(*[message(text) for text in texts], state="ended"))
        async with searched(journal, path) as index:
            assert [one.event.text for one in (await index.find("word")).hits] == texts[::-1]
        await journal.close()


async def test_a_journal_that_was_restored_from_a_copy(tmp_path: Path) -> None:
    """Its events have the numbers of others that were indexed."""
    place, path = tmp_path / "journal.db", tmp_path / "search"
    journal = await SqliteJournal.open(place)
    await journal.commit(commit(message("first word")))
    await journal.close()
    copy = place.read_bytes()
    for text in ("second", "third"):
        for one in tmp_path.glob("journal.db*"):
            one.unlink()
        place.write_bytes(copy)
        journal = await SqliteJournal.open(place)
        await journal.commit(commit(message(f"{text} word"), base=1))
        async with searched(journal, path) as index:
            assert [one.event.text for one in (await index.find("word")).hits] == [f"{text} word", "first word"]
            assert len((await index.find(text)).hits) == 1
        await journal.close()


async def test_a_damaged_index_is_made_again(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    path = tmp_path / "search"
    texts = [message(f"word {one} " + " ".join(f"w{one}x{number}" for number in range(50))) for one in range(200)]
    await sqlite_journal.commit(commit(*texts))
    async with searched(sqlite_journal, path) as index:
        await index.settle()
    path.write_bytes(b"no database" * 1_000)
    async with searched(sqlite_journal, path) as index:
        assert len((await index.find("word")).hits) == 200
    half = path.stat().st_size // 2
    with open(path, "r+b") as file:
        file.seek(half)
        file.write(os.urandom(half))
    await sqlite_journal.commit(commit(message("another word"), base=1))
    async with searched(sqlite_journal, path) as index:
        with anyio.fail_after(30):
            while True:
                try:
                    if len((await index.find_now("word")).hits) == 201:
                        break
                except UnavailableError:
                    pass
                await anyio.sleep(0.05)
        statistics = index.search.statistics()
        assert statistics is not None
        assert statistics["rebuilds"] >= 1
        assert "problem" not in statistics
    assert contents(path) == await _clean(sqlite_journal, tmp_path / "clean")


def removed(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced_by_nothing(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.touch()


def replaced_by_a_copy(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def overwritten_by_a_copy(path: Path) -> None:
    shutil.copyfile(path.with_name("older"), path)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def log_removed(path: Path) -> None:
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize(
    "change",
    [removed, renamed, replaced_by_nothing, replaced_by_a_copy, overwritten_by_a_copy, emptied, log_removed],
)
async def test_an_index_that_is_gone_is_made_again(
    change: Callable[[Path], None], sqlite_journal: SqliteJournal, tmp_path: Path
) -> None:
    """A search finds everything, or is refused, or says that it has not searched everything."""
    path = tmp_path / "search"
    async with searched(sqlite_journal, path) as index:
        await index.settle()
    shutil.copyfile(path, path.with_name("older"))
    await sqlite_journal.commit(commit(*[message(f"word {one}") for one in range(200)]))
    async with searched(sqlite_journal, path) as index:
        assert len((await index.find("word")).hits) == 200
        change(path)
        refused = set()
        with anyio.fail_after(30):
            while (index.search.statistics() or {})["rebuilds"] == 0:
                try:
                    answer = await index.find_now("word")
                    assert answer.behind or len(answer.hits) == 200
                except UnavailableError as error:
                    refused.add(str(error))
                await anyio.sleep(0)
        assert refused <= {f"{indexer_module.REPLACED}, and is being rebuilt; try again"}
        assert len((await index.find("word")).hits) == 200
        statistics = index.search.statistics() or {}
        assert (statistics["rebuilds"], statistics["behind"], statistics.get("rebuilding")) == (1, 0, None)
    assert contents(path) == await _clean(sqlite_journal, tmp_path / "clean")


async def test_a_full_disk_is_reported_and_waited_for(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "RETRY", 0.05)
    path = tmp_path / "search"
    await sqlite_journal.commit(commit(message("first word")))
    async with searched(sqlite_journal, path) as index:
        await index.settle()
        indexer = index.search._indexer
        assert indexer is not None
        assert indexer._index is not None
        connection = indexer._index._connection
        await indexer._call(connection.execute, "PRAGMA max_page_count=1")
        many = [message(" ".join(f"w{one}x{number}" for number in range(500))) for one in range(50)]
        await sqlite_journal.commit(commit(*many, message("last word"), base=1))
        with anyio.fail_after(30):
            while not (index.search.statistics() or {}).get("problem"):
                await anyio.sleep(0.02)
        statistics = index.search.statistics()
        assert statistics is not None
        assert statistics["problem"] == "the search index cannot be written: database or disk is full"
        answer = await index.find_now("word")  # what it has is found
        assert ([one.seq for one in answer.hits], answer.upto, answer.behind) == ([1], 1, 51)
        await indexer._call(connection.execute, "PRAGMA max_page_count=1000000")
        assert [one.seq for one in (await index.find("word")).hits] == [52, 1]
        assert "problem" not in (index.search.statistics() or {})
    assert contents(path) == await _clean(sqlite_journal, tmp_path / "clean")


async def test_an_index_that_cannot_be_opened(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    async with searched(sqlite_journal, tmp_path / "search") as index:
        with anyio.fail_after(30):
            while not (index.search.statistics() or {}).get("problem"):
                await anyio.sleep(0.02)
        with pytest.raises(UnavailableError, match="the search index cannot be written: "):
            await index.find_now("word")


async def test_an_index_that_was_opened_when_the_daemon_stopped_is_closed(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Python 3.13 and later warn of a database that nobody has closed."""
    opening, stopped, opened = threading.Event(), threading.Event(), []

    def slow(path: Path, journal: str) -> Index:
        opening.set()
        assert stopped.wait(30)
        opened.append(Index(path, journal))
        return opened[0]

    monkeypatch.setattr(indexer_module, "Index", slow)
    search = Search(sqlite_journal, lambda _: tmp_path / "search", 2**40)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search.run)
        assert await anyio.to_thread.run_sync(opening.wait, 30)
        tasks.cancel_scope.cancel()
    stopped.set()
    await search.close()

    [index] = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        index.statistics()


async def test_no_index(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    async with searched(sqlite_journal, tmp_path / "search", most_bytes=0) as index:
        assert index.search.statistics() is None
        with pytest.raises(UnavailableError, match="`index_bytes` is 0"):
            await index.find_now("word")
    assert not (tmp_path / "search").exists()


async def test_an_index_has_no_more_than_it_may(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "PART_DOCUMENTS", 100)
    monkeypatch.setattr(indexer_module, "BATCH", 100)
    chosen = random.Random(3)
    many = [message(f"word {' '.join(str(chosen.random()) for _ in range(20))}") for _ in range(1_000)]
    await sqlite_journal.commit(commit(*many))
    most = 300_000
    async with searched(sqlite_journal, tmp_path / "search", most) as index:
        answer = await index.find("word")
        statistics = index.search.statistics()
        assert statistics is not None
        assert statistics["bytes"] <= most
        assert answer.floor % 100 == 0
        assert 100 <= answer.floor < 900
        assert [one.seq for one in answer.hits] == list(range(1_000, answer.floor, -1))


async def test_every_journal_is_searched(journal: Journal, tmp_path: Path) -> None:
    await journal.commit(commit(message("first word", "a"), message("second word", "a"), stream="a", state="ended"))
    async with searched(journal, tmp_path / "search") as index:
        assert [one.event.text for one in (await index.find("word")).hits] == ["second word", "first word"]
        await journal.commit(commit(message("third word", "b", session="other"), stream="b", state="ended"))
        assert [one.session for one in (await index.find("word")).hits] == ["other", "session-1", "session-1"]
        assert await journal.remove_session("session-1") == 2
        index.search.note_deleted(soon=True)
        assert {one.session: one.hits for one in (await index.find("word")).tallies} == {"other": 1}
