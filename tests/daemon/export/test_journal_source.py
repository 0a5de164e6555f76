"""What an export of a session says of events that retention deletes while they are read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.daemon.events import commit, message
from tooltap.daemon.export import source as source_module
from tooltap.daemon.export.redaction import Redaction
from tooltap.daemon.export.source import Bodies, ExportedPart, JournalSource, MissingRange
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.tables import add_functions, set_meta

pytestmark = pytest.mark.anyio


async def test_what_is_deleted_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    monkeypatch.setattr(source_module, "READ", 1)  # one event at a time
    await journal.commit(commit(message("first")))
    await journal.commit(commit(message("old", "o"), message("old", "o"), stream="o"))
    await journal.commit(commit(message("last", "p"), stream="p"))
    source = JournalSource(journal, "session-1", ExportedPart(), Bodies(0, 0), Redaction())
    batches = aiter(source)
    found = [*await anext(batches)]
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as database:
        add_functions(database)  # as a deletion does that is not over
        database.execute("DELETE FROM events WHERE seq IN (2, 3)")
        set_meta(database, "expired", 3)

    found += [one async for batch in batches for one in batch]
    await journal.close()

    assert [one if isinstance(one, MissingRange) else one[0].seq for one in found] == [
        1,
        MissingRange(2, 3, is_deleted=True),
        4,
    ]


async def test_what_is_deleted_below_an_earlier_deletion_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    monkeypatch.setattr(source_module, "READ", 1)  # one event at a time
    await journal.commit(commit(message("first"), message("second"), message("last"), state="ended"))
    await journal.commit(commit(message("old", "o", session="other"), stream="o", state="ended"))
    await journal.remove_session("other")
    source = JournalSource(journal, "session-1", ExportedPart(), Bodies(0, 0), Redaction())
    batches = aiter(source)
    found = [*await anext(batches)]
    await journal.remove_session("session-1")

    found += [one async for batch in batches for one in batch]
    await journal.close()

    assert [one if isinstance(one, MissingRange) else one[0].seq for one in found] == [
        1,
        MissingRange(2, 4, is_deleted=True),
    ]
