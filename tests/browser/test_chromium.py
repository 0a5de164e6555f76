"""The tab of a test ends, and says so if its page does not."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as TimedOut

from tests.browser import chromium
from tests.browser.chromium import Tab
from tests.browser.serving import Site

HANGS = "data:text/html,<script>onload = () => setTimeout(() => { for (;;); })</script>"


def test_ends_while_its_page_is_on_its_way_to_another(site: Site, browser: Browser) -> None:
    """By a form, whose page the daemon redirects to the login page, which opens another address."""
    with Tab(browser) as tab:
        tab.expected = "403"
        site.enter(tab.page, "/logins")
        tab.page.locator("tr[aria-current]").get_by_role("button").click()

    assert tab.context not in browser.contexts


def test_page_that_hangs_is_wrong(browser: Browser, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "TIMEOUT", 2_000)
    with pytest.raises(TimedOut), Tab(browser) as tab:
        tab.page.goto(HANGS, timeout=60_000)

    assert tab.context not in browser.contexts
    assert page.evaluate("1") == 1  # the browser goes on
