"""The list of sessions that the tutorial builds from display events alone, on a phone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Tab
from tests.browser.screenshots import PHONE
from tests.browser.serving import Site
from tests.browser.working import asking_agent
from tests.cli.command import DEMO, environment
from tests.docs.pages import DOCS, tagged

PAGE = DOCS / "tutorial" / "session-list.md"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A daemon of its own: the list has every session, and one of a kind is looked for."""
    directory = tmp_path / "site"
    directory.mkdir()
    with Site(directory) as site:
        yield site


def test_list_fits_a_phone_and_has_every_session(site: Site, browser: Browser, tmp_path: Path) -> None:
    site.ingest(*DEMO.glob("*.jsonl"))
    asking_agent(site, "asks", "May I <b>clean up</b>, please, although it is a very long title?", "rm -rf build")
    (tmp_path / "phone.py").write_text(tagged(PAGE, "phone.py"))
    variables = environment(TOOLTAP_SOCKET=str(site.daemon.path), PYTHONUTF8="1")

    subprocess.run([sys.executable, "phone.py"], cwd=tmp_path, env=variables, check=True)

    with Tab(browser, **PHONE) as tab:
        page = tab.page
        page.goto((tmp_path / "phone.html").as_uri())
        rows = page.locator("li")
        assert rows.count() == len(site.sessions())
        asking = rows.filter(has_text="gemini · waiting")
        expect(asking.locator("b")).to_have_text("May I <b>clean up</b>, please, although it is a very long title?")
        expect(rows.filter(has_text="codex · done")).to_contain_text("Change the greeting")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
