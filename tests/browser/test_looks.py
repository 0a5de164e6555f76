"""Accessibility, the dark theme, and small screens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.pages import prefer
from tests.browser.recordings import CLAUDE, lines, recording
from tests.browser.serving import Site

STREAM = "looks"
RECORDED = ("grep", "shell-fails", "todos", "edit", "mcp", "web", "control-question", "picture", "subagents-parallel")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FITS = f"""new Promise((done) => {{
  const look = () => (({OVERFLOW}) === 0 ? done() : requestAnimationFrame(look));
  look();
}})"""
"""Waits for the browser's layout. `wait_for_function` evaluates its text again and again, which the page forbids."""
GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module", autouse=True)
def looked_at(site: Site) -> None:
    agent = site.publish(STREAM, "claude-stream")
    for name in (
        "grep",
        "shell-fails",
        "todos",
        "edit",
        "mcp",
        "web",
        "control-question",
        "picture",
        "subagents-parallel",
    ):
        agent.write(*(line for line in lines(CLAUDE / f"{name}.jsonl") if b'"stream_event"' not in line))
    agent.finish()
    site.ingest(recording("claude-stream/claude-code-1.0.128/denied"), recording("codex-exec/codex-0.169/patch"))


def timeline(site: Site, page: Page) -> None:
    site.enter(page, stream=STREAM)


def full(site: Site, page: Page) -> None:
    timeline(site, page)
    prefer(page, level="full")


def titles(site: Site, page: Page) -> None:
    timeline(site, page)
    prefer(page, level="title")


def preferences(site: Site, page: Page) -> None:
    timeline(site, page)
    page.locator('[popovertarget="preferences"]').first.click()


def event(site: Site, page: Page) -> None:
    timeline(site, page)
    prefer(page, tap="open", debug="on")
    page.locator("article.tool-call .head").first.click()
    expect(page.locator("#view-model, #view-user, #view-provider")).to_have_count(3)


def nothing(site: Site, page: Page) -> None:
    site.enter(page, text="there is no such text", tool="Read")


@pytest.mark.parametrize(
    ("state", "part"),
    [(full, "body"), (titles, "#feed"), (preferences, "#preferences"), (event, "body"), (nothing, "body")],
)
def test_axe_finds_no_serious_violation(site: Site, page: Page, state: Callable[[Site, Page], None], part: str) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    state(site, page)

    assert violations(page, within=part) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast", within=part) == []


@pytest.mark.parametrize("state", [full, titles, preferences, event, nothing], ids=lambda state: state.__name__)
def test_nothing_is_wider_than_a_phone(site: Site, browser: Browser, state: Callable[[Site, Page], None]) -> None:
    with Tab(browser, **PHONE) as tab:
        state(site, tab.page)

        tab.page.evaluate(FITS)


def test_sessions_and_filters_are_drawers_on_a_phone(site: Site, browser: Browser) -> None:
    with Tab(browser, **PHONE) as tab:
        page = tab.page
        timeline(site, page)
        sessions, filters = page.locator("#session-nav"), page.locator("#filters")
        expect(sessions).to_be_hidden()
        expect(filters).to_be_hidden()

        page.get_by_role("button", name="Sessions").click()
        expect(sessions).to_be_in_viewport()
        assert violations(page, within="#session-nav") == []
        page.keyboard.press("Escape")
        expect(sessions).to_be_hidden()

        page.get_by_role("button", name="Filter").click()
        assert violations(page, within="#filters") == []
        filters.locator("[name=text]").fill("greet")
        filters.get_by_role("button", name="Show").click()
        expect(page).to_have_url(re.compile("text=greet"))
        expect(page.locator(".chips")).to_contain_text("greet")


def test_theme_follows_system_or_preference(site: Site, page: Page) -> None:
    grounds: dict[Any, Any] = {}
    timeline(site, page)
    for theme in ("light", "dark", "auto"):
        prefer(page, theme=theme)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            grounds[theme, scheme] = page.evaluate(GROUND)

    assert grounds["auto", "light"] != grounds["auto", "dark"]
    assert grounds["auto", "light"] == grounds["light", "light"] == grounds["light", "dark"]
    assert grounds["auto", "dark"] == grounds["dark", "dark"] == grounds["dark", "light"]


STATES = (
    """cards => cards.map((one) => [one.dataset.status, one.querySelector(":scope > header .status").textContent])"""
)


def test_states_are_words(site: Site, page: Page) -> None:
    timeline(site, page)

    states = page.locator("#feed article.tool-call").evaluate_all(STATES)

    assert states
    assert all(state == word for state, word in states), states
