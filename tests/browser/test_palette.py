"""The palette over every page, and the page of a search: by keyboard, on a phone, and whatever agents print."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.chromium import Tab, violations
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site, arrived
from tests.browser.test_hostile import HOSTILE, assert_inert
from tests.browser.test_looks import FITS, PHONE
from tests.daemon.web.browsing import Browser as WebClient
from tests.daemon.web.browsing import until

SESSION = "palette"
OLD = "zebra in the old prose"
SMALL = """() => [...document.querySelectorAll(`main :is(a, button, select, input:not([type=hidden])),
    dialog[open] :is(a, button, input)`)]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
    .map((one) => one.outerHTML)"""
"""What is too low for a finger."""


@pytest.fixture(scope="module", autouse=True)
def session(site: Site) -> None:
    """A session with one hit long before its end, a command, a changed file, and what is hostile."""
    agent = site.publish(SESSION, "claude-stream")
    agent.write({"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/src/menagerie"})
    agent.write({"type": "user", "message": {"role": "user", "content": "Count the animals"}, "session_id": SESSION})
    agent.write(assistant_message(OLD, 0, SESSION))
    agent.write(*(assistant_message(f"filler number {one}", one, SESSION) for one in range(1, 300)))
    agent.write(called("Bash", {"command": "giraffe --count"}, "c1", SESSION))
    agent.write(answered("c1", "no such giraffe", SESSION, is_error=True))
    edit = {"file_path": "/src/menagerie/okapi.py", "old_string": "1", "new_string": "2"}
    agent.write(called("Edit", edit, "c2", SESSION), answered("c2", "done", SESSION))
    agent.finish()
    evil = site.publish("evil", "claude-stream")
    evil.write({"type": "system", "subtype": "init", "session_id": f"evil {HOSTILE}", "cwd": HOSTILE})
    evil.write({"type": "user", "message": {"role": "user", "content": f"quagga {HOSTILE}"}, "session_id": HOSTILE})
    evil.write(assistant_message(f"{HOSTILE} quagga {HOSTILE}", 1))
    evil.write(called("Bash", {"command": f"quagga {HOSTILE}"}, "c"))
    evil.write(answered("c", f"quagga {HOSTILE}"))
    evil.finish()
    client = WebClient(site.url, site.token)
    until(lambda: client.get("/api/search?query=quagga").json.get("total", 0) > 2, "the index")


def opened(page: Page, text: str = "") -> None:
    arrived(page)
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    page.keyboard.type(text)


def option(page: Page, words: str) -> re.Pattern[str]:
    """Wait for an option; return what `aria-activedescendant` is when it is chosen."""
    found = page.get_by_role("option", name=words)
    expect(found).to_have_count(1)
    return re.compile(f"^{found.get_attribute('id')}$")


def test_from_any_page_to_an_event_by_keyboard_alone(site: Site, page: Page) -> None:
    site.enter(page, "/")
    opened(page, "zebra")
    wanted = option(page, OLD)
    field = page.locator("#palette-text")
    expect(field).to_have_attribute("aria-activedescendant", wanted)
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"[?&]at=(\d+)#e\1$"))
    card = page.locator("article:target")
    expect(card).to_contain_text(OLD)
    expect(card).to_be_in_viewport()
    expect(card).to_have_css("outline-style", "solid")


def test_arrows_choose_and_wrap_around(site: Site, page: Page) -> None:
    site.enter(page, "/")
    opened(page, "giraffe")
    command, text = option(page, "giraffe --count"), option(page, "no such giraffe")
    field = page.locator("#palette-text")
    expect(field).to_have_attribute("aria-activedescendant", command)
    for key, wanted in (("ArrowDown", text), ("ArrowDown", re.compile("^palette-search$")), ("ArrowDown", command)):
        page.keyboard.press(key)
        expect(field).to_have_attribute("aria-activedescendant", wanted)
        expect(page.locator("[role=option][aria-selected=true]")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?text=giraffe$"))
    expect(page.locator(".found")).to_have_count(1)


def test_escape_returns_to_where_the_reader_was(site: Site, page: Page) -> None:
    site.enter(page, session=SESSION)
    head = page.locator("article.tool-call > header .head").last
    head.focus()
    page.keyboard.press("/")
    expect(page.locator("#palette-text")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#palette-text")).to_have_value("/")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(head).to_be_focused()


def test_a_changed_file_and_a_session_are_found(site: Site, page: Page) -> None:
    site.enter(page, "/events")
    opened(page, "okapi")
    expect(page.get_by_role("group", name="Files changed").get_by_role("option")).to_have_text(re.compile("okapi.py"))
    page.locator("#palette-text").fill("count ANIM")
    found = page.get_by_role("group", name="Sessions").get_by_role("option")
    expect(found).to_have_text(re.compile("Count the animals"))
    found.click()
    expect(page).to_have_url(f"{site.url}/sessions/{SESSION}")
    expect(page.locator("#head h1")).to_have_text(re.compile("Count the animals"))


def test_sessions_are_compared_without_asking(site: Site, tab: Tab) -> None:
    site.enter(tab.page, "/")
    opened(tab.page)
    expect(tab.page.locator("#palette-named-1")).to_be_visible()
    tab.page.route("**/find?text=*", lambda route: route.abort())
    tab.expected = "ERR_FAILED"
    tab.page.keyboard.type("menagerie")
    expect(tab.page.get_by_role("group", name="Sessions").get_by_role("option")).to_have_text(re.compile("animals"))


def test_a_stale_answer_is_dropped(site: Site, page: Page) -> None:
    site.enter(page, "/")
    held: list[Route] = []
    page.route("**/find?text=zebra", lambda route: held.append(route))
    with page.expect_request("**/find?text=zebra"):
        opened(page, "zebra")
    with page.expect_response("**/find?text=giraffe"):
        page.locator("#palette-text").fill("giraffe")
    option(page, "no such giraffe")
    assert len(held) == 1
    with page.expect_response("**/find?text=zebra"):
        held[0].continue_()
    option(page, "no such giraffe")
    expect(page.get_by_role("option", name=OLD)).to_have_count(0)


def test_a_new_tab(site: Site, tab: Tab) -> None:
    site.enter(tab.page, "/")
    tab.expected = "popup"
    opened(tab.page, "zebra")
    option(tab.page, OLD)
    with tab.context.expect_page() as new:
        tab.page.keyboard.press("Control+Enter")
    expect(new.value.locator("article:target")).to_contain_text(OLD)
    expect(tab.page.locator("#palette")).to_be_visible()


def test_actions_of_the_page(site: Site, page: Page) -> None:
    site.enter(page, session=SESSION, at="1")
    opened(page, "next failed")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("state=failed"))
    expect(page.locator("#feed article[data-status=failed]").first).to_be_visible()
    opened(page, "keyboard help")
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    opened(page, "all events")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/events$"))
    arrived(page)


def test_the_field_of_the_header_opens_it(site: Site, page: Page) -> None:
    site.enter(page, "/")
    page.locator("header #find").focus()
    expect(page.locator("#palette")).to_be_hidden()
    page.keyboard.type("z")
    expect(page.locator("#palette-text")).to_be_focused()
    page.keyboard.type("ebra")
    option(page, OLD)
    expect(page.locator("#palette-text")).to_have_value("zebra")


def test_a_choice_applies_at_once(site: Site, page: Page) -> None:
    site.enter(page, "/search", text="giraffe")
    expect(page.locator(".found .hits li")).to_have_count(2)
    page.get_by_role("combobox", name="Tool").select_option("Edit")
    expect(page).to_have_url(re.compile(r"tool=Edit"))
    page.get_by_role("link", name="Without them there are 2 hits.").click()
    expect(page.locator(".found .hits li")).to_have_count(2)


def test_nothing_hostile_runs(site: Site, page: Page) -> None:
    site.enter(page, "/search", text="quagga")
    expect(page.locator(".found mark").first).to_have_text("quagga")
    assert_inert(page)
    opened(page)
    expect(page.locator("#palette-named-1")).to_be_visible()
    assert_inert(page)
    page.keyboard.type("quagga")
    expect(page.get_by_role("group", name="Commands").get_by_role("option")).to_have_count(1)
    assert_inert(page)


def typed(site: Site, page: Page) -> None:
    site.enter(page, "/")
    page.evaluate("document.querySelector('header #find').click()")
    page.locator("#palette-text").fill("quagga")
    expect(page.get_by_role("group", name="Commands").get_by_role("option")).to_have_count(1)


def at_first(site: Site, page: Page) -> None:
    site.enter(page, "/")
    page.evaluate("document.querySelector('header #find').click()")
    expect(page.locator("#palette-named-1")).to_be_visible()


def searched(site: Site, page: Page) -> None:
    site.enter(page, "/search", text="quagga")


def nothing(site: Site, page: Page) -> None:
    site.enter(page, "/search", text="nosuchword", tool="Bash")


STATES = pytest.mark.parametrize("state", [typed, at_first, searched, nothing], ids=lambda state: state.__name__)


@STATES
def test_axe_finds_no_serious_violation(site: Site, page: Page, state: Callable[[Site, Page], None]) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    state(site, page)
    part = "#palette" if page.locator("#palette").is_visible() else "body"
    assert violations(page, within=part) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast", within=part) == []


@STATES
def test_on_a_phone(site: Site, browser: Browser, state: Callable[[Site, Page], None]) -> None:
    with Tab(browser, **PHONE) as tab:
        state(site, tab.page)
        tab.page.evaluate(FITS)
        if tab.page.locator("#palette").is_visible():
            assert tab.page.evaluate("document.querySelector('#palette').scrollWidth <= innerWidth")
            assert [one for one in tab.page.evaluate(SMALL) if "option" in one or "palette-text" in one] == []
            tab.page.get_by_role("button", name="Close").click()
            expect(tab.page.locator("#palette")).to_be_hidden()
        else:
            assert tab.page.evaluate(SMALL) == []
