"""The tabs of a session: by keyboard and pointer, live, on a phone, and without a script."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.billing import SESSION, Billing
from tests.browser.chromium import Tab, violations
from tests.browser.serving import Publisher, Site
from tests.browser.test_looks import FITS, PHONE

ADDRESS = f"/sessions/{SESSION}"
NAMES = ("files", "usage", "plan", "details")
DESKTOP = {"viewport": {"width": 1440, "height": 900}}


@pytest.fixture(scope="module")
def agent(site: Site) -> tuple[Billing, Publisher]:
    session, agent = Billing(), site.publish("billing", "claude-transcript")
    agent.write(*session.begun())
    agent.wait_stored()
    return session, agent


@pytest.fixture
def wide(agent: tuple[Billing, Publisher], site: Site, browser: Browser) -> Iterator[Page]:
    """A page that shows the session and its tabs beside each other."""
    with Tab(browser, **DESKTOP) as tab:
        site.enter(tab.page, ADDRESS)
        expect(tab.page.locator("#panel-files .changed")).not_to_have_count(0)
        yield tab.page


def opened(page: Page, name: str) -> None:
    page.locator(f"#tab-{name}").dispatch_event("click")  # the page may move while a mouse is down
    expect(page.locator(f"#panel-{name} > .tab")).to_be_visible()


def test_keyboard_chooses_a_tab_which_is_remembered(wide: Page) -> None:
    chosen = wide.get_by_role("tab", selected=True)
    expect(chosen).to_have_text(re.compile(r"Files \d"))

    chosen.focus()
    wide.keyboard.press("ArrowRight")
    expect(wide.get_by_role("tab", name="Usage")).to_be_focused()
    expect(wide.get_by_role("tabpanel", name="Usage").locator(".turn-table")).to_be_visible()
    expect(wide.get_by_role("tabpanel")).to_have_count(1)
    wide.keyboard.press("End")
    expect(chosen).to_have_text("Details")
    wide.keyboard.press("ArrowRight")
    wide.keyboard.press("ArrowLeft")
    expect(wide.get_by_role("tabpanel", name="Details")).to_contain_text("claude-transcript")

    wide.reload()
    expect(chosen).to_have_text("Details")
    expect(wide.get_by_role("tabpanel")).to_contain_text(SESSION)


def test_only_the_open_tab_is_loaded(wide: Page) -> None:
    asked: list[str] = []
    wide.on("request", lambda request: asked.append(request.url))
    wide.reload()
    expect(wide.locator("#panel-files > .tab")).to_be_visible()

    assert any("/files?" in url for url in asked)
    assert not any(f"/{name}?" in url for url in asked for name in ("usage", "plan", "details"))


def test_hunk_leads_to_the_call_that_made_it(wide: Page) -> None:
    file = wide.locator('#panel-files .changed[data-path="jobs/dunning.py"]')
    file.locator("summary").click()
    expect(file.locator("ins")).to_contain_text("uid=uuid7()")
    link = file.get_by_role("link", name="Check who else writes to `invoices` before we switch. · Edit")
    call = wide.locator(f"#e{link.get_attribute('data-event')}")

    link.click()

    expect(call).to_be_in_viewport()
    expect(call).to_have_class(re.compile("marked"))
    expect(call.locator(".head").first).to_be_focused()
    assert "dunning.py" in call.inner_text()
    expect(file.locator("ins")).to_be_visible()  # nothing was loaded again


def test_hunk_leads_there_from_the_page_of_the_files(site: Site, wide: Page) -> None:
    site.enter(wide, f"{ADDRESS}/files")
    link = wide.locator('.changed[data-path="jobs/dunning.py"]').get_by_role(
        "link", name="Check who else writes to `invoices` before we switch. · Edit"
    )
    seq = link.get_attribute("data-event")

    link.click()

    expect(wide).to_have_url(re.compile(rf"at={seq}.*#e{seq}$"))
    expect(wide.locator(f"#e{seq}")).to_be_in_viewport()


def test_open_tab_is_live(agent: tuple[Billing, Publisher], wide: Page) -> None:
    session, publisher = agent
    tab = wide.get_by_role("tab", name="Files")
    before = int(tab.locator(".count").inner_text())
    file = wide.locator('#panel-files .changed[data-path="ledger/models/invoice.py"]')
    file.locator("summary").focus()
    wide.keyboard.press("Enter")
    expect(file.locator("pre.diff")).to_have_count(1)

    publisher.write(*session.edited(f"notes/{before}.md", "old", "new"))

    expect(wide.locator(f'.changed[data-path="notes/{before}.md"]')).to_be_visible()
    expect(tab.locator(".count")).to_have_text(str(before + 1))
    expect(file.locator("pre.diff")).to_have_count(1)
    expect(file.locator("summary")).to_be_focused()


def test_page_of_a_tab_is_live_too(agent: tuple[Billing, Publisher], site: Site, wide: Page) -> None:
    session, publisher = agent
    site.enter(wide, f"{ADDRESS}/plan")
    expect(wide.locator(".tab-plan .sum")).to_have_text("3 of 4 done")

    publisher.write(*session.planned(4))

    expect(wide.locator(".tab-plan .sum")).to_have_text("4 of 4 done")


def test_command_is_copied(site: Site, browser: Browser, agent: tuple[Billing, Publisher]) -> None:
    with Tab(browser, permissions=["clipboard-read", "clipboard-write"]) as tab:
        site.enter(tab.page, f"{ADDRESS}/details")
        tab.page.get_by_role("button", name="Copy: Read it in a terminal").click()

        expect(tab.page.get_by_role("button", name="Copy: Read it in a terminal")).to_have_text("Copied")
        assert tab.page.evaluate("navigator.clipboard.readText()") == f"tooltap show {SESSION}"


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_serious_violation(wide: Page, site: Site, name: str) -> None:
    opened(wide, name)
    if name == "files":
        wide.locator("#panel-files summary").first.click()
        expect(wide.locator("#panel-files pre.diff")).not_to_have_count(0)
    assert violations(wide, within="#aside") == []
    wide.emulate_media(color_scheme="dark")
    assert violations(wide, "color-contrast", within="#aside") == []
    site.enter(wide, f"{ADDRESS}/{name}")
    assert violations(wide) == []


@pytest.mark.parametrize("name", NAMES)
def test_fits_a_phone(agent: tuple[Billing, Publisher], site: Site, browser: Browser, name: str) -> None:
    with Tab(browser, **PHONE) as tab:
        site.enter(tab.page, ADDRESS)
        tab.page.get_by_role("button", name="Files, usage, plan", exact=True).click()
        opened(tab.page, name)
        tab.page.evaluate(FITS)

        site.enter(tab.page, f"{ADDRESS}/{name}")
        tab.page.evaluate(FITS)
        for one in tab.page.locator(".tabs a, .changed > summary, .to-copy button").all():
            box = one.bounding_box()
            assert box is not None
            assert box["height"] >= 44, one.inner_text()
