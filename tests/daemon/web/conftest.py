"""A daemon with a web gateway: one per test, or a common one per module for tests that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Browser]]:
    """A browser for all tests of a module."""
    with browsed(tmp_path_factory.mktemp("web")) as served:
        yield served


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
