"""Which files were changed most this week, by whom, and what did it cost: each in at most three clicks from home."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.serving import Site
from tests.browser.test_looks import FITS, PHONE

MOST = 3
DAY = 86_400
USAGE = {"input_tokens": 1_000, "output_tokens": 100, "cache_read_input_tokens": 9_000}
LONG = "/work/" + "/".join(["very-long-folder-name"] * 8) + "/" + "a" * 90 + ".py"


def session(name: str, days: int, *paths: str) -> Iterator[dict[str, Any]]:
    """Lines of a session file of Claude Code, so many days ago: an edit of a line in each file."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * DAY))
    base = {"sessionId": name, "cwd": "/work", "timestamp": when, "version": "2.1.330"}
    asked = {"role": "user", "content": f"Please {name}."}
    yield {"type": "user", "uuid": f"{name}-0", "parentUuid": None, "message": asked, **base}
    for number, path in enumerate(paths):
        given = {"file_path": path, "old_string": "a", "new_string": "b"}
        use = {"type": "tool_use", "id": f"{name}-{number}", "name": "Edit", "input": given}
        said = {"id": f"m-{name}-{number}", "role": "assistant", "model": "claude-opus-4-5", "content": [use]}
        line = {"type": "assistant", "uuid": f"{name}-a{number}", "requestId": f"{name}-{number}", **base}
        yield {**line, "message": {**said, "usage": USAGE}}
        result = {"type": "tool_result", "tool_use_id": f"{name}-{number}", "content": "ok"}
        yield {
            "type": "user",
            "uuid": f"{name}-r{number}",
            "message": {"role": "user", "content": [result]},
            "toolUseResult": {"structuredPatch": [{"oldStart": 1, "lines": ["-a", "+b"]}]},
            **base,
        }


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """This week `/work/app.py` was changed most, by two sessions; before, it was `/work/old.py`."""
    with Site(tmp_path_factory.mktemp("week")) as site:
        for name, lines in (
            ("repair", session("repair", 1, "/work/app.py", "/work/app.py", LONG)),
            ("extend", session("extend", 2, "/work/app.py")),
            ("before", session("before", 20, *["/work/old.py"] * 5)),
        ):
            agent = site.publish(name, "claude-transcript")
            agent.write(*lines)
            agent.finish()
        yield site


class Clicks:
    def __init__(self) -> None:
        self.count = 0

    def on(self, place: Locator) -> None:
        self.count += 1
        place.click()


def test_which_files_were_changed_most_this_week_and_by_whom(week: Site, page: Page) -> None:
    clicks = Clicks()
    week.enter(page, "/")
    clicks.on(page.get_by_role("link", name="Files", exact=True))
    expect(page.locator(".changed .name").first).to_have_text("old.py")
    clicks.on(page.get_by_role("link", name="7 days"))
    expect(page.locator(".changed .name")).to_have_text(["app.py", re.compile("a{90}")])
    first = page.locator(".changed").first
    expect(first.locator("summary")).to_contain_text("3 changes")
    expect(first.locator("summary")).to_contain_text("2 sessions · Claude Code")
    clicks.on(first.locator("summary"))

    expect(first.locator("a.title")).to_have_text(["Please repair.", "Please extend."])
    assert clicks.count <= MOST


def test_a_file_leads_to_the_calls_of_its_hunks(week: Site, page: Page) -> None:
    clicks = Clicks()
    week.enter(page, "/files", period="week")
    clicks.on(page.locator(".changed summary").first)
    clicks.on(page.get_by_role("link", name="Please extend."))
    call = page.locator(".changed[open] .made a").first
    expect(call).to_contain_text("Edit")
    clicks.on(call)

    expect(page).to_have_url(re.compile("/sessions/extend.*#e"))
    expect(page.locator("#head h1")).to_have_text("Please extend.")
    assert clicks.count <= MOST


def test_what_it_cost(week: Site, page: Page) -> None:
    clicks = Clicks()
    week.enter(page, "/")
    total = page.locator("a.pill.sum")
    expect(total).to_contain_text("tokens")
    clicks.on(total)
    expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    expect(page.locator(".sums tbody tr")).to_have_count(3)
    clicks.on(page.locator(".pills").get_by_role("link", name="Session", exact=True))
    rows = page.locator(".sums tbody tr th")
    expect(rows).to_have_text(["Please before.", "Please repair.", "Please extend."])
    clicks.on(rows.first.get_by_role("link"))

    expect(page.locator(".turn-table")).to_be_visible()
    assert clicks.count <= MOST


def files(site: Site, page: Page) -> None:
    site.enter(page, "/files")
    page.locator(".changed summary").last.click()


def usage(site: Site, page: Page) -> None:
    site.enter(page, "/usage")


def sessions(site: Site, page: Page) -> None:
    site.enter(page, "/usage", by="session")


def home(site: Site, page: Page) -> None:
    site.enter(page, "/")
    expect(page.locator("a.pill.sum")).to_contain_text("tokens")


STATES = [files, usage, sessions, home]


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_no_serious_violation(week: Site, page: Page, state: Callable[[Site, Page], None]) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    state(week, page)

    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_wider_than_a_phone(week: Site, browser: Browser, state: Callable[[Site, Page], None]) -> None:
    with Tab(browser, **PHONE) as tab:
        state(week, tab.page)

        tab.page.evaluate(FITS)
