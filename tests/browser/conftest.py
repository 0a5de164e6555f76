"""One browser for all tests of this folder that follow each other in a process, a fresh profile for each of them.

Playwright's event loop belongs to the thread while the browser is there, so the browser goes when this folder's tests
end: tests elsewhere run loops of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import PROGRAM, Tab, launched
from tests.browser.serving import Site
from tests.programs import require


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    require(PROGRAM)
    with launched() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with Tab(browser) as tab:
        yield tab


@pytest.fixture
def page(tab: Tab) -> Page:
    return tab.page


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A daemon for all tests that use a stream or a session of their own."""
    with Site(tmp_path_factory.mktemp("site")) as site:
        yield site
