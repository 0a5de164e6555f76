"""A session much longer than what the browser holds of it. How long things take is measured by `scale.py`."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser import scale
from tests.browser.chromium import Tab
from tests.browser.long_session import SESSION
from tests.browser.serving import Site

EVENTS = 3_000
STEPS = 60


def test_what_the_browser_holds_does_not_grow_with_what_was_seen(site: Site, tab: Tab) -> None:
    scale.fill(site, EVENTS)

    measured = scale.measure(site, tab, STEPS)

    assert measured.seen >= 300
    assert measured.elements < scale.ELEMENTS
    assert tab.page.locator("#feed > section[data-empty]").count() > 0


def test_the_beginning_can_be_reached_and_the_end_again(site: Site, tab: Tab) -> None:
    site.enter(tab.page, session=SESSION, after="0")
    first = tab.page.locator("article.card").first

    expect(first).to_contain_text("Session started")
    expect(tab.page.locator("#older")).to_be_hidden()
    tab.page.get_by_role("link", name="Newest events").click()
    expect(tab.page.locator("#newer")).to_be_hidden()
    expect(tab.page.locator("article.card").last).to_be_in_viewport()
