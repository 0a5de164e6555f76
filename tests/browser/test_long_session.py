"""A session much longer than what the browser holds of it. `scale.py` measures times."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from tests.browser import scale
from tests.browser.chromium import Tab
from tests.browser.long_session import SESSION
from tests.browser.serving import Site

EVENTS = 3_000
BUSY = 4
"""How many times as long a step may take here as a task on a quiet machine: it has several, and each takes longer where
others use the caches, too."""
FILLED = "#feed > section:not([data-empty])"
EMPTIED = "#feed > section[data-empty]"
UPWARDS = f"""() => {{
    scrollBy(0, -innerHeight);
    return document.querySelectorAll("{EMPTIED}").length >= 8;
}}"""

UNTIL_LEFT = """() => {
    scrollBy(0, -innerHeight);
    return !document.querySelector("#newer").hidden;
}"""
UNTIL_BACK = """() => {
    scrollBy(0, innerHeight);
    return document.querySelector("#newer").hidden;
}"""


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


def test_end_that_was_left_is_reached_again(site: Site, page: Page) -> None:
    """The browser holds a part of the session, and scrolls through all of it in both directions."""
    site.enter(page, session=SESSION)
    sections = page.locator("#feed > section")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    newest = sections.last.get_attribute("data-last")

    page.wait_for_function(UNTIL_LEFT)
    expect(sections.last).not_to_have_attribute("data-last", newest or "")
    page.wait_for_function(UNTIL_BACK)

    expect(sections.last).to_have_attribute("data-last", newest or "")
    assert sections.count() <= 40
    spans = sections.evaluate_all("all => all.map((one) => [Number(one.dataset.first), Number(one.dataset.last)])")
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(spans))


def test_scrolling_never_stops(site: Site, tab: Tab) -> None:
    """As far as it is up to the page: `scale.py` measures how long tasks take, which a busy machine makes longer."""
    measured = scale.measure(site, tab, steps=60)

    assert measured.seen > 500
    assert 0 < max(measured.work) < BUSY * scale.LONG
    assert measured.elements < scale.ELEMENTS


def test_first_visit_is_small(site: Site, tab: Tab) -> None:
    """Styles, scripts and the page together, as they are sent."""
    tab.context.add_init_script(scale.WATCH)
    site.enter(tab.page, session=SESSION)
    expect(tab.page.locator("#connection")).to_have_attribute("data-state", "live")

    sent = tab.page.evaluate(scale.SENT)

    assert sum(sent.values()) < scale.FIRST_VISIT, sent
    assert {"/static/code.css", "/static/page.js", "/static/rows.js"} <= sent.keys()


def test_both_ends_can_be_reached(site: Site, page: Page) -> None:
    site.enter(page, session=SESSION, after="0")

    expect(page.locator("article.card").first).to_have_class(re.compile(r"\bturn\b"))
    expect(page.locator("#older")).to_be_hidden()
    page.get_by_role("link", name="Newest events").press("Enter")  # a click may miss it, while sections come above it
    expect(page.locator("#newer")).to_be_hidden()
    expect(page.locator("article.card").last).to_be_in_viewport()
