"""The board with agents that work: what they do changes in place, nothing else moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.serving import Site
from tests.browser.test_hostile import HOSTILE, UNSEEN
from tests.browser.test_looks import FITS, PHONE
from tests.browser.working import Codex, asking_agent

COMMAND = "psql $STAGING -f migrations/0042_uuid_backfill.sql"


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Site]:
    """A daemon of its own: the board shows every agent."""
    with Site(tmp_path) as site:
        yield site


def opened(site: Site, page: Page) -> None:
    site.enter(page, "/board")
    expect(page.locator("#connection")).to_have_text("Live")


def test_board_follows_agents(board: Site, page: Page) -> None:
    opened(board, page)
    columns = page.locator(".column")
    expect(page.locator("#board-summary")).to_contain_text("No agent runs now.")

    codex = Codex(board, "etl", "Why is the import slow?", "python -m etl.profile")
    expect(columns).to_have_count(1)
    etl = page.locator(".column", has_text="Why is the import slow?")
    expect(etl.locator(".words")).to_have_text("I'll measure first where the time goes.")
    expect(etl.locator(".now")).to_contain_text("python -m etl.profile")
    expect(etl.locator(".now time")).to_have_text(re.compile(r"^\d+ s$"))
    expect(etl.locator(".now time")).not_to_have_text(etl.locator(".now time").inner_text())  # it counts

    etl.evaluate("column => (column.isTheSame = true)")
    etl.locator("h2 a").focus()
    codex.print("".join(f"step {number}\n" for number in range(8)))
    expect(etl.locator(".output")).to_have_text("step 3\nstep 4\nstep 5\nstep 6\nstep 7")
    codex.say("m2", "It is the index.")
    expect(etl.locator(".words")).to_have_text("It is the index.")
    expect(etl.locator(".output")).to_contain_text("step 7")
    expect(etl.locator("h2 a")).to_be_focused()
    assert etl.evaluate("column => column.isTheSame")

    asking_agent(board, "ledger", "Migrate the billing tables", COMMAND)
    ledger = page.locator(".column", has_text="Migrate the billing tables")
    expect(columns).to_have_count(2)
    expect(columns.first).to_contain_text("Migrate the billing tables")
    expect(ledger.locator(".state")).to_contain_text("Waiting for you")
    expect(ledger.locator(".asking")).to_have_text(f"Wants to run a command {COMMAND}")
    expect(page.locator("#asks > .ask .asked")).to_have_text(COMMAND)
    where = "Answer in the window where the agent runs, in /home/you/ledger"
    expect(page.locator("#asks > .ask")).to_contain_text(where)
    expect(page).to_have_title("(1) Board · tooltap")
    ledger.locator(".asking a").click()
    expect(page).to_have_url(re.compile(r"/board#ask-\d+$"))
    expect(page.locator(".ask:target")).to_be_in_viewport()
    etl.locator("h2 a").focus()
    expect(ledger.locator("dl")).to_contain_text("3 of 4 done")
    expect(ledger.locator("dl")).to_contain_text("64 %")
    expect(etl.locator("h2 a")).to_be_focused()

    codex.end("done\n", 0)
    expect(etl).to_have_attribute("data-ended", "")
    expect(etl.locator(".state")).to_contain_text("ago")
    expect(page.locator("#board-summary")).to_contain_text("1 waits for you")
    expect(columns.last).to_contain_text("Why is the import slow?")
    assert etl.evaluate("column => column.isTheSame")


def test_keyboard_goes_from_column_to_column(board: Site, page: Page) -> None:
    Codex(board, "one", "First task", "make one")
    Codex(board, "two", "Second task", "make two")
    opened(board, page)
    titles = page.locator(".column h2 a")
    expect(titles).to_have_count(2)

    titles.first.focus()
    page.keyboard.press("ArrowRight")
    expect(titles.last).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(titles.first).to_be_focused()
    expect(page.get_by_role("region", name="First task")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#head h1")).to_have_text("Second task")


def test_nothing_of_agents_runs(board: Site, page: Page) -> None:
    opened(board, page)
    codex = Codex(board, "hostile", HOSTILE, HOSTILE, cwd=HOSTILE)
    asking_agent(board, "asks", HOSTILE, HOSTILE, cwd=HOSTILE)
    expect(page.locator(".column")).to_have_count(2)
    codex.say("m2", HOSTILE)
    codex.print(HOSTILE)
    expect(page.locator(".output")).to_be_visible()

    for _ in ("live", "anew"):
        html = page.content()
        assert [sign for sign in UNSEEN if sign in html] == []
        assert page.locator(".agents :is(script, iframe, img, form, style, link)").count() == 0
        page.reload()
        expect(page.locator("#connection")).to_have_text("Live")


def test_axe_and_a_phone(board: Site, browser: Browser) -> None:
    asking_agent(board, "ledger", "Migrate the billing tables", COMMAND)
    ended = Codex(board, "ended", "Port the settings page", "make")
    ended.end("", 1)
    with Tab(browser, reduced_motion="reduce", **PHONE) as tab:
        opened(board, tab.page)
        codex = Codex(board, "etl", "Why is the import slow?", "python -m etl.profile")
        expect(tab.page.locator(".column")).to_have_count(3)
        codex.print("x" * 500 + "\n")
        expect(tab.page.locator(".output:visible")).to_have_count(1)
        tab.page.evaluate(FITS)
        for scheme in ("light", "dark"):
            tab.page.emulate_media(color_scheme=scheme)
            assert violations(tab.page) == []
        heights = tab.page.locator(".column h2 a").evaluate_all("all => all.map(one => one.offsetHeight)")
        assert min(heights) >= 44, heights
