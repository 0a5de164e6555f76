"""The journal's file: its owner, who may read it, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path

import pytest

from tests.daemon.events import commit, message
from tooltap.daemon.journal.interface import Committed, JournalError
from tooltap.daemon.journal.json_lines import json_lines
from tooltap.daemon.journal.sqlite import file, opening, writer
from tooltap.daemon.journal.sqlite.file import JournalLock, read_high_water
from tooltap.daemon.journal.sqlite.journal import STAMP_PERIOD_MS, SqliteJournal
from tooltap.daemon.journal.sqlite.opening import JournalFile
from tooltap.protocol.events import Message, decode

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


async def test_what_is_deleted_while_lines_are_written_is_a_gap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CHUNK_BYTES", 1)  # one event at a time
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("a"), message("b"), message("c"), state="ended"))
    await journal.commit(commit(message("d", "o", session="other"), stream="o"))
    with closing(JournalFile(path)) as read:
        lines = json_lines(read, bodies=False)
        written = [await anext(lines)]
        await journal.remove_session("session-1")
        written += [line async for line in lines]
    await journal.close()

    rows = [json.loads(one) for one in written]
    assert [one.get("seq") or (one["from"], one["to"]) for one in rows] == [1, (2, 3), 4]


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = await SqliteJournal.open(path)
    yield journal
    await journal.close()


async def test_files_are_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        journal = await SqliteJournal.open(path)
        await journal.commit(commit(message("a")))
    finally:
        os.umask(before)

    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    names = ("journal.db", "journal.db-wal", "journal.db-shm", "journal.db.lock", "journal.db.tip")
    assert modes == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await journal.close()


async def test_second_daemon_learns_the_owner(journal: SqliteJournal, path: Path) -> None:
    learned = f"JournalError the journal {path} is used by another daemon (pid {os.getpid()})\n"

    assert opened_elsewhere(path) == learned


def opened_elsewhere(path: Path) -> str:
    """Open the journal in another process. Returns the error."""
    program = (
        "import asyncio, sys, pathlib\n"
        "from tooltap.daemon.journal.sqlite.journal import STAMP_PERIOD_MS, SqliteJournal\n"
        "try: asyncio.run(SqliteJournal.open(pathlib.Path(sys.argv[1])))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    return subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True).stdout


async def test_id_and_settings_persist(path: Path) -> None:
    ids = []
    for _ in range(2):
        journal = await SqliteJournal.open(path, durability="power")
        ids.append(journal.id)
        await journal.close()

    assert ids[0] == ids[1]
    database = sqlite3.connect(path)
    pragmas = {
        name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "auto_vacuum", "journal_mode")
    }
    database.close()
    assert pragmas == {"page_size": 8192, "auto_vacuum": 2, "journal_mode": "wal"}


async def test_a_file_in_which_somebody_was_killed_is_looked_at(path: Path) -> None:
    """SQLite can read nothing of it before it has undone what was not committed."""
    path.parent.mkdir()
    other = sqlite3.connect(path.with_name("other"), isolation_level=None)
    for statement in ("PRAGMA cache_size=1", "CREATE TABLE theirs (x)", "BEGIN"):
        other.execute(statement)
    other.executemany("INSERT INTO theirs VALUES (?)", [(bytes(1000),)] * 1000)
    for suffix in ("", "-journal"):
        shutil.copy(path.with_name(f"other{suffix}"), f"{path}{suffix}")
    other.close()
    files = {one: one.read_bytes() for one in path.parent.glob(f"{path.name}*")}

    with pytest.raises(JournalError) as caught:
        await SqliteJournal.open(path)
    assert str(caught.value) == f"{path} is a database, but not a tooltap journal"
    assert {one: one.read_bytes() for one in files} == files


async def test_foreign_file_is_refused(path: Path) -> None:
    async def refusal(of: Path = path) -> str:
        with pytest.raises(JournalError) as caught:
            await SqliteJournal.open(of)
        return str(caught.value)

    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be read as a header" * 20)
    assert await refusal() == f"{path} is not a tooltap journal: file is not a database"

    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert await refusal() == f"{path} is a database, but not a tooltap journal"

    path.unlink()
    await (await SqliteJournal.open(path)).close()
    newer = sqlite3.connect(path)
    newer.execute("UPDATE meta SET value=7 WHERE key='format'")
    newer.commit()
    newer.close()
    assert await refusal() == (
        f"the journal {path} has format 7, written by another version of tooltap; this one knows only 1"
    )

    assert "cannot be opened" in await refusal(path.parent)
    assert "cannot be opened" in await refusal(path / "below-a-file")


async def test_closed_journal_refuses_calls(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.close()
    await journal.close()

    with pytest.raises(JournalError, match="closed"):
        await journal.read(0)
    with pytest.raises(JournalError, match="closed"):
        await journal.commit(commit(message("a")))


async def test_journal_whose_creation_was_cut_off_is_created(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.close()
    assert path.stat().st_size
    await (await SqliteJournal.open(path)).close()


async def test_size_of_files_that_are_gone_is_zero(journal: SqliteJournal, path: Path) -> None:
    files = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]
    assert journal.statistics()["bytes"] == sum(one.stat().st_size for one in files) > 0
    for one in files:
        one.unlink()
    assert journal.statistics()["bytes"] == 0


async def test_commits_are_reported_in_the_context_of_the_opener(path: Path) -> None:
    """It says which event loop runs. If Trio is installed beside tooltap, anyio needs that to start a task."""
    opener: ContextVar[str] = ContextVar("opener", default="nobody")
    opener.set("the daemon")
    journal = await SqliteJournal.open(path)
    found: list[str] = []
    journal.on_commit = lambda _: found.append(opener.get())
    await journal.listen()
    await journal.commit(commit(message("a")))
    await journal.close()

    assert found == ["the daemon"]


def removed(file: Path, kept: Path) -> None:
    os.link(file, kept)
    file.unlink()


def renamed(file: Path, kept: Path) -> None:
    file.rename(kept)


def replaced(file: Path, kept: Path) -> None:
    file.rename(kept)
    shutil.copyfile(kept, file)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("change", [removed, renamed, replaced])
async def test_nothing_is_acknowledged_that_a_removed_file_has(
    change: Callable[[Path, Path], None], suffix: str, path: Path, tmp_path: Path
) -> None:
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("before")))
    file, kept = Path(f"{path}{suffix}"), tmp_path / "kept"
    change(file, kept)
    sentence = f"{file} was removed, renamed or replaced in use: put it back, or restart the daemon"

    assert journal.problem == sentence
    for _ in range(2):
        with pytest.raises(JournalError, match=re.escape(sentence)):
            await journal.commit(commit(message("refused"), stream="other"))

    kept.replace(file)
    assert journal.problem == ""
    await journal.commit(commit(message("after"), base=1))
    await journal.close()
    assert await texts(path) == ["before", "after"]


@pytest.mark.parametrize("is_copied_in_use", [False, True])
async def test_nothing_is_acknowledged_that_an_overwritten_file_has(
    is_copied_in_use: bool, path: Path, tmp_path: Path
) -> None:
    """`cp` writes over the file. What is there then is served by the next daemon, and what it lacks is a gap."""
    clock = Clock()
    journal = await SqliteJournal.open(path, clock=clock)
    await journal.commit(commit(message("kept")))
    if not is_copied_in_use:
        await journal.close()
        journal = await SqliteJournal.open(path, clock=clock)
    await journal.expire(0)
    shutil.copyfile(path, tmp_path / "backup")
    await journal.commit(commit(message("lost"), base=1))
    clock.now += STAMP_PERIOD_MS
    await journal.expire(0)
    assert journal.problem == ""
    shutil.copyfile(tmp_path / "backup", path)
    sentence = f"{path} was overwritten in use: restart the daemon, which then serves what is there now"

    assert journal.problem == sentence
    for _ in range(2):
        with pytest.raises(JournalError, match=re.escape(sentence)):
            await journal.commit(commit(message("refused"), stream="other"))
    await journal.close()
    assert path.read_bytes() == (tmp_path / "backup").read_bytes()
    assert Path(f"{path}-wal.overwritten").exists()

    journal = await SqliteJournal.open(path)
    assert journal.corrupt.events == 1
    await journal.commit(commit(message("after"), base=1))
    await journal.close()
    assert await texts(path) == ["kept", "after"]


async def test_journal_is_opened_though_nothing_can_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers go on, also on a full disk."""
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("before")))
    await journal.close()

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(file, "write_stamp", refuse)
    assert await texts(path) == ["before"]


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


async def test_file_that_is_emptied_in_use_stores_nothing(journal: SqliteJournal, path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="was overwritten in use"):
        await journal.commit(commit(message("a")))


async def test_what_is_committed_while_the_file_is_removed_is_not_acknowledged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file goes between the look at it and the commit. It has the events all the same, so readers get them."""
    journal = await SqliteJournal.open(path)
    told: list[Committed] = []
    journal.on_commit = told.extend
    kept = path.with_name("kept")
    monkeypatch.setattr(writer, "failpoint", lambda name: path.rename(kept) if name == "before-commit" else None)
    with pytest.raises(JournalError, match="was removed"):
        await journal.commit(commit(message("not acknowledged")))
    monkeypatch.undo()
    kept.rename(path)

    assert ([one.seqs for one in told], journal.latest) == ([[1]], 1)
    await journal.commit(commit(message("after"), base=1))
    await journal.close()
    assert await texts(path) == ["not acknowledged", "after"]


async def test_look_at_the_files_that_fails_stops_nothing(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: object) -> os.stat_result:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "stat", fail)
    await journal.commit(commit(message("a")))

    assert journal.problem == ""


async def test_lock_that_is_removed_is_made_again(journal: SqliteJournal, path: Path) -> None:
    Path(f"{path}.lock").unlink()
    await journal.commit(commit(message("a")))

    with pytest.raises(JournalError, match="is used by another daemon"):
        await SqliteJournal.open(path)


async def test_daemon_whose_lock_another_has_taken_stores_nothing(journal: SqliteJournal, path: Path) -> None:
    Path(f"{path}.lock").unlink()
    other = JournalLock(path)
    try:
        with pytest.raises(JournalError, match=rf"another daemon \(pid {os.getpid()}\) has opened the journal {path}"):
            await journal.commit(commit(message("a")))
    finally:
        other.release()
    await journal.commit(commit(message("a")))


async def test_high_water_mark_that_is_removed_is_written_again(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("a")))
    before = read_high_water(path)
    Path(f"{path}.tip").unlink()
    await journal.commit(commit(message("b"), base=1))
    await journal.close()

    after = read_high_water(path)
    assert before is not None
    assert after is not None
    assert (before.next_seq, after.next_seq) == (2, 3)


@pytest.mark.parametrize("linked_before", [True, False])
async def test_second_daemon_is_refused_under_another_name(linked_before: bool, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    journal = await SqliteJournal.open(path)
    if linked_before:
        await journal.close()
        os.link(path, other)
        journal = await SqliteJournal.open(path)
    else:
        os.link(path, other)
    await journal.commit(commit(message("a")))

    assert opened_elsewhere(other) == (
        f"JournalError the journal {other} is used by another daemon (pid {os.getpid()}), under its other name {path}\n"
    )
    await journal.close()
    await (await SqliteJournal.open(other)).close()
    assert await texts(other) == ["a"]


async def texts(path: Path) -> list[str]:
    journal = await SqliteJournal.open(path)
    try:
        stored, _ = await journal.read(0)
    finally:
        await journal.close()
    return [event.text for one in stored if isinstance(event := decode(one.body), Message)]
