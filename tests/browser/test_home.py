"""Home: filters without leaving the page, what changes while one looks at it, thousands of sessions."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.daemon.zones import zone_where_it_is

LIVE = re.compile("Live")
ELEMENTS = "document.querySelectorAll('*').length"
MOST_ELEMENTS = 6_000
SESSIONS = 5_000
STREAM = 250
"""Sessions of one stream."""
EDIT = {"file_path": "/src/app.py", "old_string": "a", "new_string": "b"}
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
TITLES = "main [data-session] .title"
COUNT_STREAM = """
window.received = 0;
const Plain = window.EventSource;
window.EventSource = class extends Plain {
    addEventListener(name, listener) {
        super.addEventListener(name, (event) => {
            if (event instanceof MessageEvent) received += new Blob([event.data]).size;
            listener(event);
        });
    }
};
"""
"""Counts the bytes of the messages that the page gets."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A daemon of its own: its table has what these tests write, and nothing else."""
    with Site(tmp_path_factory.mktemp("home")) as site:
        agent = site.publish("three", "claude-stream")
        for name in ("repair", "explain"):
            agent.write(*begun(name, f"/src/{name}er"), assistant_message("Done.", 1, name))
        agent.write(
            *begun("breaks", "/src/breaker"),
            called("Read", {"file_path": "/src/app.py"}, "r1", "breaks"),
            answered("r1", "a", "breaks"),
            called("Edit", EDIT, "e1", "breaks"),
            answered("e1", "String to replace not found in file.", "breaks", is_error=True),
        )
        agent.finish()
        yield site


@pytest.mark.parametrize(("hour", "warnings"), [(13, 1), (2, 0)])
def test_budget_is_of_the_browsers_day(tmp_path: Path, browser: Browser, hour: int, warnings: int) -> None:
    """A million tokens for $5, six hours ago: where it is two in the night, that was yesterday."""
    then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 6 * 3_600))
    answer = assistant_message("Done.", 1, "s")["message"] | {
        "model": "claude-opus-4-5",
        "usage": {"input_tokens": 1_000_000, "output_tokens": 0},
    }
    line = {"type": "assistant", "uuid": "a", "parentUuid": None, "requestId": "r", "message": answer, "version": "2"}
    with (
        Site(tmp_path, "[usage.budget]", "day = 2.5") as site,
        Tab(browser, timezone_id=zone_where_it_is(hour)) as tab,
    ):
        agent = site.publish("spent", "claude-transcript")
        agent.write({**line, "sessionId": "s", "cwd": "/w", "timestamp": then})
        agent.finish()
        with tab.page.expect_response(re.compile("/budgets")):
            site.enter(tab.page, "/")
        expect(tab.page.locator("#budgets p")).to_have_text(["Over budget today: $5.00 of $2.50"] * warnings)


def begun(session: str, folder: str) -> list[dict[str, Any]]:
    return [
        {"type": "system", "subtype": "init", "session_id": session, "cwd": folder, "model": "claude-opus-5-5"},
        {"type": "user", "message": {"role": "user", "content": f"Please {session}."}, "session_id": session},
    ]


def opened(site: Site, page: Page, **query: str) -> None:
    site.enter(page, "/", **query)
    expect(page.locator("#connection")).to_have_text(LIVE)


def choose(page: Page, menu: str, value: str) -> None:
    page.locator("summary", has_text=menu).click()
    page.locator("details[open] a", has_text=value).click()


def test_filters_apply_at_once_and_live_in_the_address(home: Site, page: Page) -> None:
    opened(home, page)
    page.evaluate("window.isSame = true")

    choose(page, "Any project", "repairer")
    expect(page.locator(TITLES)).to_have_text(["Please repair."])
    choose(page, "repairer", "explainer")
    expect(page.locator(TITLES)).to_have_count(2)
    choose(page, "Any time", "7 days")

    expect(page).to_have_url(f"{home.url}/?project=repairer&project=explainer&period=week")
    assert page.evaluate("window.isSame")
    page.reload()
    expect(page.locator(TITLES)).to_have_count(2)
    page.locator("summary", has_text="repairer, explainer").click()
    page.locator("details[open] a", has_text="repairer").first.click()
    expect(page).to_have_url(f"{home.url}/?project=explainer&period=week")
    page.go_back()
    expect(page.locator(TITLES)).to_have_count(2)


def test_last_weeks_failed_edit_is_three_clicks_away(home: Site, page: Page) -> None:
    opened(home, page)

    page.locator("summary", has_text="Any time").click()
    page.locator("details[open] a", has_text="7 days").click()
    page.get_by_role("link", name="1 error").click()

    card = page.locator("article.tool-call")
    expect(card).to_have_count(1)
    expect(card).to_contain_text("Edit")
    expect(card.locator("> header .status")).to_have_text("failed")
    expect(page).to_have_url(f"{home.url}/sessions/breaks?state=failed")


def test_table_follows_what_happens(home: Site, page: Page) -> None:
    opened(home, page)
    expect(page.locator('[data-count="all"]')).to_have_text("3")
    first = page.locator("tr[data-session]").first

    agent = home.publish("live", "claude-stream")
    agent.write(*begun("appear", "/src/new"))
    expect(first.locator(".title")).to_have_text("Please appear.")
    expect(page.locator('[data-count="all"]')).to_have_text("4")
    expect(first.locator(".state")).to_have_text("Running")

    other = home.publish("other", "claude-stream")
    other.write(*begun("follow", "/src/new"))
    expect(first.locator(".title")).to_have_text("Please follow.")

    # While the pointer is over the table its rows change, and stay where they are.
    first.hover()
    agent.write(called("Read", {"file_path": "/src/a"}, "r2", "appear"))
    expect(page.locator('tr[data-session="appear"] svg')).to_be_visible()
    rest = ["Please breaks.", "Please explain.", "Please repair."]
    expect(page.locator(TITLES)).to_have_text(["Please follow.", "Please appear.", *rest])
    page.mouse.move(5, 5)
    expect(page.locator(TITLES)).to_have_text(["Please appear.", "Please follow.", *rest])
    agent.finish()
    other.finish()
    expect(page.locator('tr[data-session="appear"] .state')).not_to_have_text("Running")


def test_what_waits_appears_and_goes(home: Site, page: Page) -> None:
    opened(home, page)
    pill = page.locator("#waits")
    expect(pill).to_be_hidden()
    agent = home.publish("asks", "acp")
    agent.write(*ASKS)

    expect(page.locator("#asks")).to_contain_text("make deploy")
    expect(pill).to_have_text("1\xa0waiting")
    assert violations(page) == []
    agent.write(ANSWER)
    expect(page.locator("#asks")).to_be_empty()
    expect(pill).to_be_hidden()


def test_changes_of_a_session_are_few_bytes(home: Site, tab: Tab) -> None:
    tab.context.add_init_script(COUNT_STREAM)
    opened(home, tab.page)
    agent = home.publish("thirty", "claude-stream")
    agent.write(*begun("thirty", "/src/thirty"))
    for number in range(14):
        call = f"c{number}"
        agent.write(called("Bash", {"command": "ls"}, call, "thirty"), answered(call, "a\nb", "thirty"))
        expect(tab.page.locator('tr[data-session="thirty"] svg')).to_have_attribute(
            "aria-label", f"{number + 1} call{'s' if number else ''}"
        )
    agent.finish()

    expect(tab.page.locator('tr[data-session="thirty"] .state')).not_to_have_text("Running")
    assert 0 < tab.page.evaluate("received") < 40_000


def test_keyboard_and_screen_readers(home: Site, page: Page) -> None:
    opened(home, page)

    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    expect(page.get_by_role("row").nth(2).get_by_role("cell").first).to_have_text(
        re.compile("Done|Running|Interrupted")
    )
    page.locator("summary", has_text="Any agent").focus()
    page.keyboard.press("Enter")
    expect(page.locator("details[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("details[open]")).to_have_count(0)


def test_keys_go_through_the_rows(home: Site, page: Page) -> None:
    home.enter(page)
    rows = page.locator(TITLES)
    expect(rows).not_to_have_count(0)
    expect(page.locator("#connection")).to_have_text(LIVE)
    for key, row in (("j", 0), ("j", 1), ("ArrowDown", 2), ("k", 1), ("ArrowUp", 0), ("k", 0)):
        page.keyboard.press(key)
        expect(rows.nth(row)).to_be_focused()
    page.keyboard.press("f")
    expect(page.locator("summary.pill").first).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_contain_text("next, previous row")
    page.keyboard.press("Escape")
    address = rows.nth(1).get_attribute("href") or ""
    rows.nth(1).focus()
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(re.escape(address)))


def test_fits_a_phone(home: Site, browser: Browser) -> None:
    with Tab(browser, **PHONE) as tab:
        opened(home, tab.page)

        assert tab.page.evaluate("document.documentElement.scrollWidth") == 360
        small = "[...document.querySelectorAll('header :is(a, button), .pills :is(a, summary), tr a.title')]"
        heights = tab.page.evaluate(f"{small}.filter(one => one.checkVisibility()).map(one => one.offsetHeight)")
        assert min(height for height in heights if height > 1) >= 44


def test_five_thousand_sessions(tmp_path: Path, browser: Browser) -> None:
    """Every row can be reached, and the document stays small."""
    with Site(tmp_path) as site, Tab(browser) as tab:
        page = tab.page
        fill(site, SESSIONS)
        opened(site, page)
        expect(page.locator('[data-count="all"]')).to_have_text("5,000")
        seen, elements = set[str](), 0
        for _ in range(400):
            names, count, is_end = page.evaluate(LOOK)
            seen |= set(names)
            elements = max(elements, count)
            if is_end:
                break
            page.evaluate("scrollBy(0, innerHeight * 2)")
        assert len(seen) == SESSIONS
        assert elements < MOST_ELEMENTS

        page.evaluate("scrollTo(0, 0)")
        expect(page.locator(TITLES).first).to_have_text(re.compile("session 4999"))
        assert page.evaluate(ELEMENTS) < MOST_ELEMENTS


LOOK = """async () => {
    const table = document.querySelector("table.list");
    const isBlank = () => [...table.querySelectorAll("[data-empty]")].some((one) => {
        const { top, bottom } = one.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
    });
    const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
    const isOver = () => document.querySelector("#older-sessions").hidden;
    while (isBlank() || (atEnd() && !isOver())) await new Promise(requestAnimationFrame);
    return [
        [...table.querySelectorAll("tr[data-session]")].map((one) => one.dataset.session),
        document.querySelectorAll("*").length,
        atEnd() && isOver(),
    ];
}"""
"""Waits until what is visible is there; returns the sessions in the table, the elements, whether this is the end."""


def fill(site: Site, sessions: int) -> None:
    """Write sessions, the newest last, in streams that are short enough to be waited for."""
    for start in range(0, sessions, STREAM):
        agent = site.publish(f"many-{start}", "claude-stream")
        for number in range(start, start + STREAM):
            prompt = {"role": "user", "content": f"Prompt of session {number}"}
            agent.write({"type": "user", "message": prompt, "session_id": f"s{number}"})
        agent.finish()


ASKS: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/src/asker", "mcpServers": []}},
    {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "asks"}},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "session/prompt",
        "params": {"sessionId": "asks", "prompt": [{"type": "text", "text": "Please deploy."}]},
    },
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "session/request_permission",
        "params": {
            "sessionId": "asks",
            "toolCall": {
                "toolCallId": "t1",
                "title": "make deploy",
                "kind": "execute",
                "rawInput": {"command": "make deploy"},
            },
            "options": [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}],
        },
    },
]
ANSWER = {"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}
