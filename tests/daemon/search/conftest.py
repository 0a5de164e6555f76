"""New journals, as in the tests of journals."""

from __future__ import annotations

import pytest

from tests.daemon.journal.conftest import clock as clock
from tests.daemon.journal.conftest import journal as journal
from tests.daemon.journal.conftest import place as place
from tests.daemon.journal.conftest import sqlite_journal as sqlite_journal
from tooltap.daemon.search import search


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lift the time limit of searches, so that a busy machine cuts none off."""
    monkeypatch.setattr(search, "HIT_SECONDS", 60.0)
    monkeypatch.setattr(search, "COUNT_SECONDS", 60.0)
