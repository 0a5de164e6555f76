"""A daemon for the commands, and publishers that wait for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.constants import VARIABLE
from tests.daemon.running import Running, running
from tests.test_layout import ROOT

STALL = 30.0
"""Seconds that a publisher waits for the daemon to confirm its last lines, which a busy machine may take."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as one:
        yield one


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishers in processes of their own: usually they end after 2 s without a confirmation, and say so."""
    monkeypatch.setenv(VARIABLE, json.dumps({"stall": STALL}))
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # whatever folder they are started in
