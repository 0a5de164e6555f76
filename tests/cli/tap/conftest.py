"""What publishers print is asserted, so they wait for the daemon as long as a busy machine takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.running import Running, running


@pytest.fixture(autouse=True)
def patiently(patient: None) -> None:
    pass


@pytest.fixture
def settling(tmp_path: Path) -> Iterator[Running]:
    """A daemon for which a stream is silent at once."""
    with running(tmp_path, settle_timeout=0.01) as one:
        yield one
