"""One daemon with a web gateway for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Running, Browser]]:
    with browsed(tmp_path) as served:
        yield served


@pytest.fixture
def daemon(served: tuple[Running, Browser]) -> Running:
    return served[0]


@pytest.fixture
def browser(served: tuple[Running, Browser]) -> Browser:
    return served[1]
