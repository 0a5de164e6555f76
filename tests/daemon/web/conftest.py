"""A daemon with a web gateway, for each test, or one for those of a module that do not change what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Browser]]:
    """One for all of a module."""
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
