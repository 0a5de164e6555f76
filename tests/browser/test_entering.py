"""How a browser logs in, what it shows if it cannot, and the list of logins."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.chromium import Tab, violations
from tests.browser.serving import Site

LIVE = re.compile("Live")


@pytest.fixture
def other(browser: Browser) -> Iterator[Tab]:
    """Another browser."""
    with Tab(browser) as tab:
        yield tab


def test_link_lets_in_and_leaves_the_address(site: Site, page: Page) -> None:
    page.goto(site.link(stream="nobodys"))

    expect(page).to_have_url(f"{site.url}/events?stream=nobodys")
    expect(page.locator("#connection")).to_have_text(LIVE)
    page.reload()
    expect(page.locator("#connection")).to_have_text(LIVE)
    expect(page.locator("#empty")).to_be_visible()
    expect(page).to_have_url(f"{site.url}/events?stream=nobodys")
    page.go_back()
    expect(page).to_have_url("about:blank")  # the steps between are not in the history


def test_without_link_is_told_what_to_do(site: Site, page: Page) -> None:
    response = page.goto(site.url)

    assert response is not None
    expect(page.get_by_text("tooltap serve link")).to_be_visible()
    expect(page.locator("#reason")).to_be_empty()
    assert violations(page) == []


def test_link_can_be_pasted(site: Site, tab: Tab) -> None:
    page = tab.page
    tab.expected = "403"
    page.goto(f"{site.url}/events?stream=pasted")
    field = page.get_by_label("Or paste it here:")
    field.fill("http://127.0.0.1/#login=guess")
    page.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_have_text("This link was used before, or is too old.")

    field.fill(site.link())
    page.get_by_role("button").click()

    expect(page).to_have_url(f"{site.url}/events?stream=pasted")
    expect(page.locator("#connection")).to_have_text(LIVE)


def test_link_in_an_open_page(site: Site, page: Page) -> None:
    """Only what is after the `#` changes, so the browser loads nothing by itself."""
    page.goto(site.url)
    expect(page.get_by_text("tooltap serve link")).to_be_visible()

    page.goto(site.link())

    expect(page.locator("#connection")).to_have_text(LIVE)


def test_old_link_is_no_harm_to_who_is_in(site: Site, tab: Tab) -> None:
    link = site.link()
    site.open(tab.page, link)
    tab.expected = "403"

    tab.page.goto(site.url + "/events?stream=x")
    expect(tab.page.locator("#connection")).to_have_text(LIVE)
    tab.page.goto(link)
    expect(tab.page.locator("#connection")).to_have_text(LIVE)


def test_old_link_with_a_token(site: Site, page: Page) -> None:
    """It is not accepted, and the token does not stay in the address."""
    page.goto(f"{site.url}/events?stream=nobodys&token={site.token}")
    expect(page.get_by_role("alert")).to_have_text("A token in an address is no longer accepted.")
    expect(page).to_have_url(f"{site.url}/events?stream=nobodys")

    site.enter(page)
    site.open(page, f"{site.url}/events?stream=nobodys&token={site.token}")
    expect(page).to_have_url(f"{site.url}/events?stream=nobodys")
    expect(page.locator("#connection")).to_have_text(LIVE)


def test_addresses_of_the_api_open_in_a_tab(site: Site, tab: Tab) -> None:
    page = tab.page
    tab.expected = "403"  # the browser looks for an icon
    site.enter(page)

    site.open(page, f"{site.url}/api/stats")

    assert '"perStream"' in page.locator("body").inner_text()


def test_logins_are_listed_and_ended(site: Site, tab: Tab, other: Tab) -> None:
    """A page of a login that has ended shows nothing more."""
    page = tab.page
    tab.expected = other.expected = "403"
    site.enter(page)
    site.enter(other.page)
    expect(other.page.locator("#connection")).to_have_text(LIVE)
    page.locator('[popovertarget="preferences"]').first.click()
    page.get_by_role("link", name="Browsers that are logged in").click()
    rows = page.locator("tbody tr")
    expect(page.locator("tr[aria-current]")).to_contain_text("this one")
    expect(rows.nth(1)).to_contain_text("127.0.0.1")
    assert violations(page) == []

    other_id = other.context.cookies()[0]["value"].partition(".")[0]
    page.get_by_role("button", name=re.compile(other_id)).click()

    expect(other.page.get_by_role("alert")).to_have_text("This browser's login has ended.")
    expect(other.page.locator("#timeline")).to_have_count(0)
    expect(page.locator("td", has_text=other_id)).to_have_count(0)
    expect(page.locator("tr[aria-current]")).to_be_visible()

    page.locator("tr[aria-current]").get_by_role("button").click()

    expect(page.get_by_role("alert")).to_have_text("This browser's login has ended.")
    expect(page.locator("tbody")).to_have_count(0)


def test_form_is_sent_before_the_script_of_the_page_has_loaded(site: Site, page: Page, other: Tab) -> None:
    other.expected = "403"
    site.enter(page, "/logins")
    site.enter(other.page)
    other_id = other.context.cookies()[0]["value"].partition(".")[0]
    held: list[Route] = []
    page.route("**/static/page.js", lambda route: held.append(route))
    page.reload(wait_until="commit")

    page.get_by_role("button", name=re.compile(other_id)).click()

    expect(page.locator("td", has_text=other_id)).to_have_count(0)
    expect(page.locator("tr[aria-current]")).to_be_visible()
    assert held


def test_script_is_needed(site: Site, browser: Browser) -> None:
    with Tab(browser, java_script_enabled=False) as tab:
        tab.page.goto(site.url)

        assert "This page needs JavaScript" in tab.page.content()


def test_daemon_that_is_away(site: Site, page: Page) -> None:
    """The login page says so if it cannot ask."""
    site.enter(page)
    page.context.add_init_script("window.fetch = () => Promise.reject(new Error('no answer'))")
    page.goto(f"{site.url}/events?stream=away")

    expect(page.get_by_role("alert")).to_have_text("The daemon cannot be asked: no answer")
