"""Fixtures of the attackers' tests; `tests/attacks/__init__.py` says how they are used."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.attacks.hostile import Hostile
from tests.attacks.stranger import MISSING as NOT_ROOT
from tests.attacks.stranger import Stranger
from tests.browser.chromium import PROGRAM, TIMEOUT, close, launched, leave
from tests.browser.serving import Site
from tests.programs import require


@pytest.fixture(scope="session")
def _stranger() -> Iterator[Stranger]:
    if NOT_ROOT:
        pytest.skip(NOT_ROOT)
    with Stranger() as stranger:
        yield stranger


@pytest.fixture
def stranger(_stranger: Stranger) -> Stranger:
    """A process of another user, the same in all tests."""
    return _stranger


@pytest.fixture
def lasting_stranger() -> Iterator[Stranger]:
    """A process of another user for one test, to keep things open or to run beside the test."""
    if NOT_ROOT:
        pytest.skip(NOT_ROOT)
    with Stranger() as stranger:
        yield stranger


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can look into: those of pytest are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="tooltap-attack-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def sticky_folder(open_folder: Path) -> Path:
    """A folder in which everybody can create files, as in `/tmp`."""
    open_folder.chmod(0o1777)
    return open_folder


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    with Hostile() as hostile:
        yield hostile


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    require(PROGRAM)
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A daemon with its page, for all tests that leave it as it is."""
    with Site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="package")
def _profile(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT)
    site.enter(context.new_page())
    yield context
    close(context)


@pytest.fixture
def victim(_profile: BrowserContext) -> Iterator[Page]:
    """A new tab of the user's browser, which is logged in on `site`, in the same profile in all tests."""
    yield _profile.new_page()
    for tab in _profile.pages:
        leave(tab)
        tab.close()


@pytest.fixture
def shared(open_folder: Path) -> Path:
    """A folder that everybody may write to. It is not sticky, so that the system itself forbids nothing in it."""
    open_folder.chmod(0o777)
    return open_folder
