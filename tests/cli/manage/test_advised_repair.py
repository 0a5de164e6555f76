"""What is said of a damaged journal is followed, whatever is damaged: `tests/cli/test_advised.py` has the table of all
advice.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import MutableMapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.cli.manage.test_advice import commands
from tests.daemon.events import commit, message
from tests.daemon.journal.test_journal_damage import COLUMNS, EVENTS, PAGE, damage, fill
from tests.daemon.running import running
from tests.daemon.test_files_in_use import until
from tooltap.daemon.journal.interface import JournalError

Logs = list[MutableMapping[str, Any]]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intact")
    asyncio.run(fill(folder / "journal.db"))
    return folder


@pytest.fixture
def folder(intact: Path, tmp_path: Path) -> Path:
    shutil.copytree(intact, tmp_path, dirs_exist_ok=True)
    return tmp_path


def overwrite(file: Path, name: str) -> None:
    """Overwrite the first page of a table or of an index; `schema`: what the first page says of all of them."""
    with closing(sqlite3.connect(file)) as database:
        pages = dict(database.execute("SELECT name, rootpage FROM sqlite_schema"))
    with file.open("r+b") as data:
        data.seek(100 if name == "schema" else PAGE * (pages[name] - 1))
        data.write(bytes(range(256)) * 8)


def mend(folder: Path, said: str) -> None:
    """Follow what was said, and what is said then; afterwards the journal takes and gives events."""
    place = ("--journal", f"sqlite:{folder / 'journal.db'}")
    [command] = commands(said)
    if command == ["journal", "check"]:
        checked = here(*command, *place)
        assert checked.returncode == 1
        [command] = commands((checked.stdout + checked.stderr).decode())
    assert command == ["journal", "repair"]
    assert here(*command, *place).returncode == 0
    assert here("journal", "check", *place).returncode == 0
    with capture_logs() as logs, running(folder) as daemon:
        daemon.commit(commit(message("x", "new"), stream="new"))
        with daemon.subscribe(after="start", follow=False) as wire:
            read = [one for one in wire.rest() if "kind" in one]
        assert len(read) >= EVENTS
        assert "x" in [one.get("text") for one in read]
    assert advice_in(logs) == []


def advice_in(logs: Logs) -> list[str]:
    """The log's advice about the journal."""
    texts = (str(value) for one in logs for value in one.values())
    return [one for one in texts if "`tooltap journal " in one]


@pytest.mark.parametrize("name", ["meta", "events", "gaps", "schema"])
def test_journal_that_cannot_be_opened_is_repaired(folder: Path, name: str) -> None:
    overwrite(folder / "journal.db", name)
    with capture_logs(), pytest.raises(JournalError, match="cannot be opened") as error, running(folder):
        pass

    mend(folder, str(error.value))


@pytest.mark.parametrize("name", ["sources", "streams", "events_by_source", "sessions_by_time"])
def test_journal_that_cannot_be_written_is_repaired(folder: Path, name: str) -> None:
    overwrite(folder / "journal.db", name)
    refused = pytest.raises(JournalError, match="is damaged where it was to be written")
    with capture_logs(), running(folder) as daemon, refused as error:
        daemon.commit(commit(message("x", "new"), stream="new"))

    mend(folder, str(error.value))


def test_part_that_cannot_be_read_is_checked_and_repaired(folder: Path) -> None:
    overwrite(folder / "journal.db", "streams_by_state")
    with capture_logs() as logs, running(folder):
        until(lambda: any("a part of the journal is damaged (" in one for one in advice_in(logs)))

    mend(folder, next(one for one in advice_in(logs) if "a part of" in one))


def test_damage_that_a_verification_finds_is_checked_and_repaired(folder: Path) -> None:
    damage(folder / "journal.db", COLUMNS["body"], 77)
    with capture_logs() as logs, running(folder, scrub_interval=0.01):
        until(lambda: advice_in(logs) != [])
    [said, *_] = advice_in(logs)
    assert said.startswith("the journal is damaged: see ")

    mend(folder, said)


def test_another_place_is_chosen_where_none_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = f"sqlite:{tmp_path / 'file' / 'journal.db'}"
    refused = pytest.raises(JournalError, match="make it writable")
    with capture_logs(), refused as error, running(tmp_path, journal=below):
        pass
    [[*_, option, given]] = commands(str(error.value))
    assert (option, given) == ("--journal", "sqlite:PATH")
    with capture_logs(), running(tmp_path, journal=given.replace("PATH", str(tmp_path / "other.db"))) as daemon:
        daemon.commit(commit(message("x")))
