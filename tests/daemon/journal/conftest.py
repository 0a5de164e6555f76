"""New journals: one of each implementation, for the tests that every journal must pass, and one of SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.open import Place
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.system.clock import Clock, wall_clock


@pytest.fixture
def clock() -> Clock:
    return wall_clock


@pytest.fixture(params=["sqlite", "nats"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "nats":
        nats_place: NatsPlace = request.getfixturevalue("nats_place")
        return nats_place
    return tmp_path / "journal.db"


@pytest.fixture
async def journal(place: Place, clock: Clock) -> AsyncIterator[Journal]:
    """One of each journal, with `listen` called."""
    journal: Journal
    if isinstance(place, NatsPlace):
        journal = await NatsJournal.open(place, clock=clock)
    else:
        journal = await SqliteJournal.open(place, clock=clock)
    await journal.listen()
    yield journal
    await journal.close()


@pytest.fixture
async def sqlite_journal(tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteJournal]:
    """For tests that look behind the interface."""
    journal = await SqliteJournal.open(tmp_path / "journal.db", clock=clock)
    yield journal
    await journal.close()
