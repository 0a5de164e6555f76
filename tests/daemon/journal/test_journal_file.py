"""The journal's file: its owner, who may read it, and what is refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path

import pytest

from tests.daemon.events import commit, message
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.journal import SqliteJournal

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


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
    program = (
        "import asyncio, sys, pathlib\n"
        "from tooltap.daemon.journal.sqlite.journal import SqliteJournal\n"
        "try: asyncio.run(SqliteJournal.open(pathlib.Path(sys.argv[1])))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)

    assert ran.stdout == f"JournalError the journal {path} is used by another daemon (pid {os.getpid()})\n"


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
