"""The page of calls: last week's failed edit in three clicks from home, by mouse and keyboard, and what it says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.chromium import Tab, violations
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.browser.test_hostile import HOSTILE, assert_inert
from tests.browser.test_looks import FITS, PHONE
from tests.browser.test_palette import SMALL
from tests.daemon.web.browsing import Browser as WebClient
from tests.daemon.web.browsing import until

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
TITLE = "Repair the aviary"
NOTE_WORDS = """head => {
    window.words = ["Copy resume command"];
    new MutationObserver(() => {
        const now = head.querySelector("button[data-line]").textContent;
        if (now !== words.at(-1)) words.push(now);
    }).observe(head, { childList: true, subtree: true });
}"""
"""Notes each word of the button, also if the head is made again."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A daemon of its own, as calls of all sessions are listed. It has a failed edit of this week in one session, and
    one of last year in another; a command with a description."""
    with Site(tmp_path_factory.mktemp("calls")) as site:
        fill(site)
        yield site


def fill(site: Site) -> None:
    for session, ended, title in (("week", NOW - 2 * DAY, TITLE), ("year", NOW - 300 * DAY, "Feed the lions")):
        agent = site.publish(f"stream-{session}", "claude-stream", framing="tapped")
        edit = {"file_path": f"/src/zoo/{session}.py", "old_string": "1", "new_string": "2"}
        run = {"command": "mise run census", "description": "Tally every animal"}
        lines = [
            {"type": "system", "subtype": "init", "session_id": session, "cwd": "/src/zoo"},
            {"type": "user", "message": {"role": "user", "content": title}, "session_id": session},
            called("Edit", edit, f"{session}-1", session),
            answered(f"{session}-1", "String to replace not found", session, is_error=True),
            called("Bash", run, f"{session}-2", session),
            answered(f"{session}-2", "12 animals", session),
            assistant_message(f"{'filler ' * 40}needle{' filler' * 40}", 1, session),
        ]
        for number, line in enumerate(lines):
            agent.write({"t": ended + number * 1_000, "dir": "out", "line": line})
        agent.write({"op": "end"})
    evil = site.publish("evil", "claude-stream")
    evil.write({"type": "system", "subtype": "init", "session_id": f"evil {HOSTILE}", "cwd": HOSTILE})
    evil.write(called(f"Ev{HOSTILE}", {"command": HOSTILE}, "c"), answered("c", HOSTILE, is_error=True))
    evil.finish()
    client = WebClient(site.url, site.token)
    until(lambda: len(client.get("/api/calls").json["calls"]) == 5, "the index")


@pytest.fixture
def copying(browser: Browser) -> Iterator[Page]:
    with Tab(browser, permissions=["clipboard-read", "clipboard-write"]) as tab:
        yield tab.page


def test_last_weeks_failed_edit_in_three_clicks(site: Site, page: Page) -> None:
    site.enter(page, "/")
    clicks = ("Failed calls", "Edits", "Last 7 days")
    for name in clicks:
        page.get_by_role("link", name=name, exact=True).click()
    rows = page.locator(".calls .hits li")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("week.py")
    expect(rows).to_contain_text("String to replace not found")
    expect(rows.locator(".who")).to_contain_text(TITLE)
    expect(page).to_have_url(re.compile(r"/calls\?outcome=failed&family=edit&period=week$"))


def test_a_row_leads_to_its_event_and_its_session(site: Site, page: Page) -> None:
    site.enter(page, "/calls", outcome="failed", family="edit", period="week")
    page.locator(".calls .hits li > a").click()
    expect(page).to_have_url(re.compile(r"/sessions/week\?at=(\d+)#e\1$"))
    expect(page.locator("article:target")).to_contain_text("week.py")
    page.go_back()
    page.get_by_role("link", name=TITLE).click()
    expect(page).to_have_url(f"{site.url}/sessions/week")


def test_filters_are_combined_and_removed(site: Site, page: Page) -> None:
    site.enter(page, "/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Calls").click()
    rows = page.locator(".calls .hits li")
    expect(rows).to_have_count(5)
    page.get_by_role("searchbox", name="File", exact=True).fill("zoo/year.py")
    page.get_by_role("searchbox", name="File", exact=True).press("Enter")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Feed the lions")
    page.get_by_role("link", name="Denied", exact=True).click()
    expect(page.locator("#empty")).to_contain_text("No call is like this.")
    page.get_by_role("link", name="All calls").click()
    expect(rows).to_have_count(5)
    page.get_by_role("combobox", name="Tool").select_option("Bash")
    expect(page).to_have_url(re.compile("tool=Bash"))
    expect(rows).to_have_count(2)


def test_what_happened_last_is_found_from_the_events(site: Site, page: Page) -> None:
    """The session of last year was stored after that of this week."""
    site.enter(page, "/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Events").click()
    page.get_by_role("link", name="By when they happened").click()
    sessions = page.locator(".found h2 a")
    expect(page.locator(".sum")).to_contain_text("by when they happened")
    names = sessions.all_inner_texts()
    assert names.index(TITLE) < names.index("Feed the lions")
    times = page.locator(".hits time").evaluate_all("all => all.map(one => Number(one.dataset.ts))")
    assert len(times) > 10
    assert times == sorted(times, reverse=True)
    page.get_by_role("combobox", name="Tool").select_option("Edit")
    expect(page).to_have_url(re.compile("tool=Edit"))
    expect(page.locator(".hits .label")).to_have_text(["Edit output", "Edit", "Edit output", "Edit"])
    expect(page.get_by_role("link", name="Older events")).to_have_count(0)


def test_choice_counts_before_the_script_of_the_page_has_loaded(site: Site, page: Page) -> None:
    site.enter(page, "/calls")
    held: list[Route] = []
    page.route("**/static/page.js", lambda route: held.append(route))
    page.reload(wait_until="commit")

    page.get_by_role("combobox", name="Tool").select_option("Bash")

    expect(page).to_have_url(re.compile("tool=Bash"))
    assert held


def test_the_palette_shows_no_command_that_was_not_run(site: Site, page: Page) -> None:
    site.enter(page, "/")
    page.keyboard.press("Control+k")
    page.keyboard.type("census")
    commands = page.get_by_role("group", name="Commands").locator(".main")
    expect(commands).to_have_text(["mise run census", "mise run census"])
    page.locator("#palette-text").fill("tally")
    expect(commands).to_have_text(["Tally every animal", "Tally every animal"])
    expect(commands.first).not_to_have_class(re.compile("mono"))
    labels = page.get_by_role("group", name="Commands").locator(".label")
    expect(labels.first).to_have_text("Bash description")


def test_a_hit_in_the_palette_is_in_sight(site: Site, page: Page) -> None:
    site.enter(page, "/")
    page.keyboard.press("Control+k")
    page.keyboard.type("needle")
    row = page.get_by_role("group", name="Text").get_by_role("option").first
    mark, main = row.locator("mark").bounding_box(), row.locator(".main").bounding_box()
    assert mark is not None
    assert main is not None
    assert main["x"] <= mark["x"]
    assert mark["x"] + mark["width"] <= main["x"] + main["width"]


def test_axe_finds_no_violation_and_nothing_hostile_runs(site: Site, page: Page) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    site.enter(page, "/calls")
    expect(page.locator(".calls .hits li")).to_have_count(5)
    assert_inert(page)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []


def test_on_a_phone(site: Site, browser: Browser) -> None:
    with Tab(browser, **PHONE) as tab:
        site.enter(tab.page, "/calls")
        expect(tab.page.locator(".calls .hits li")).to_have_count(5)
        tab.page.evaluate(FITS)
        assert tab.page.evaluate(SMALL) == []


def test_the_command_that_continues_a_session_is_copied(site: Site, copying: Page) -> None:
    page = copying
    site.enter(page, session="week")
    button = page.get_by_role("button", name="Copy the command that continues the session")
    page.locator("#head").evaluate(NOTE_WORDS)
    copies: list[Callable[[], None]] = [lambda: button.press("Enter"), lambda: page.keyboard.press("c")]
    for times, copy in enumerate(copies, 1):
        page.evaluate("navigator.clipboard.writeText('')")
        page.locator("article.card .head").first.focus()
        copy()
        page.wait_for_function("count => words.length === count", arg=2 * times + 1)
        assert page.evaluate("navigator.clipboard.readText()") == "cd /src/zoo && claude --resume week"
    assert page.evaluate("words") == ["Copy resume command", *["Copied", "Copy resume command"] * 2]
