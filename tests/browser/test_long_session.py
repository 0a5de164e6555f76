"""A session much longer than what the browser holds of it. `scale.py` measures times."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import scale
from tests.browser.long_session import SESSION
from tests.browser.serving import Site

EVENTS = 3_000
FILLED = "#feed > section:not([data-empty])"
EMPTIED = "#feed > section[data-empty]"
UPWARDS = f"""() => {{
    scrollBy(0, -innerHeight);
    return document.querySelectorAll("{EMPTIED}").length >= 8;
}}"""


@pytest.fixture(scope="module", autouse=True)
def long_session(site: Site) -> None:
    scale.fill(site, EVENTS)


def test_number_of_elements_is_bounded(site: Site, page: Page) -> None:
    site.enter(page, session=SESSION)
    page.wait_for_function(UPWARDS)

    assert page.locator(FILLED).count() < 16
    assert page.evaluate(scale.ELEMENT_COUNT) < scale.ELEMENTS
    page.keyboard.press("G")
    expect(page.locator(FILLED).last.locator("article.card").last).to_be_in_viewport()


def test_both_ends_can_be_reached(site: Site, page: Page) -> None:
    site.enter(page, session=SESSION, after="0")

    expect(page.locator("article.card").first).to_contain_text("Turn 1")
    expect(page.locator("#older")).to_be_hidden()
    page.get_by_role("link", name="Newest events").click()
    expect(page.locator("#newer")).to_be_hidden()
    expect(page.locator("article.card").last).to_be_in_viewport()
