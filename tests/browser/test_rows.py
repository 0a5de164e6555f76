"""Rows of a session: runs that grow while they are looked at, dividers of turns, subagents that open and close."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Publisher, Site

SCENE = "rows"


def user(text: str, session: str) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, "session_id": session}


def read(number: int, session: str, **fields: Any) -> list[dict[str, Any]]:
    """Return a call that reads a file, and its result."""
    asked = called("Read", {"file_path": f"/src/services/{number}.py"}, f"{session}-read-{number}", session)
    return [{**one, **fields} for one in (asked, answered(f"{session}-read-{number}", "1\tx", session))]


def opened(site: Site, page: Page, session: str) -> Publisher:
    agent = site.publish(session, "claude-stream")
    agent.write({"type": "system", "subtype": "init", "session_id": session, "cwd": "/src", "model": "m"})
    agent.write(user("Look around", session))
    site.enter(page, session=session)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    expect(page.locator("article.message")).to_contain_text("Look around")
    return agent


def texts(rows: Locator) -> list[str]:
    """Return what rows say, without the blanks between its parts."""
    return ["".join(one.split()) for one in rows.all_text_contents()]


def test_run_grows_live_as_after_a_reload(site: Site, page: Page) -> None:
    session = "growing-run"
    agent = opened(site, page, session)
    rows = page.locator("#feed > section > article:not(.message, .turn)")
    run = page.locator("article.run")

    agent.write(*read(1, session))
    expect(rows).to_have_count(1)
    agent.write(*read(2, session))
    expect(rows).to_have_count(2)  # the last row stays while nothing follows it
    agent.write(*read(3, session))
    expect(run.locator("summary")).to_contain_text("2 files in services/ — 2 reads")
    expect(rows).to_have_count(2)
    agent.write(*read(4, session))
    expect(run.locator("summary")).to_contain_text("3 files in services/ — 3 reads")
    expect(rows).to_have_count(2)
    agent.write(called("Read", {"file_path": "/src/none.py"}, "gone", session))
    agent.write(
        answered("gone", "File does not exist.", session, is_error=True), assistant_message("Done.", 1, session)
    )

    expect(page.locator("article.message")).to_have_count(2)
    shown = texts(rows)
    assert len(shown) == 2
    expect(rows.last).to_have_attribute("data-status", "failed")
    expect(rows.last).to_be_visible()
    expect(run.locator("summary")).to_contain_text("4 files in services/ — 4 reads")
    page.reload()
    expect(run.locator("summary")).to_contain_text("4 files in services/ — 4 reads")
    expect(rows).to_have_count(2)


def hook(name: str, session: str, outcome: str = "success") -> dict[str, Any]:
    ran = {"hook_name": name, "hook_event": name, "stdout": "ok", "outcome": outcome}
    return {"type": "system", "subtype": "hook_response", "session_id": session, **ran}


def test_what_hooks_report_is_folded_live_as_after_a_reload(site: Site, page: Page) -> None:
    session = "hooks"
    agent = opened(site, page, session)
    run = page.locator("article.run")

    agent.write(
        *read(1, session), hook("PostToolUse:Read", session), *read(2, session), hook("PostToolUse:Read", session)
    )
    agent.write(assistant_message("Done.", 1, session), hook("Stop", session), hook("Stop", session, "error"))
    expect(page.locator('article.notice[data-status="warning"]')).to_be_visible()

    expect(run).to_have_count(2)
    assert texts(run.locator("summary")) == ["Explored2filesinservices/—2reads,2hookmessages", "1hookmessage"]
    live = texts(page.locator("#feed > section > article:not(.message, .turn)"))
    page.reload()
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    assert texts(page.locator("#feed > section > article:not(.message, .turn)")) == live
    expect(run.last.locator("article.notice")).to_be_hidden()
    run.last.locator("summary").click()
    expect(run.last.locator("article.notice")).to_be_visible()


def test_focus_stays_on_what_changes(site: Site, page: Page) -> None:
    """On a link in the head of the session, and on the line that folds rows."""
    session = "focused"
    agent = opened(site, page, session)
    for number in (1, 2, 3):
        agent.write(*read(number, session))
    summary = page.locator("article.run > details > summary")
    expect(summary).to_contain_text("2 files in services/ — 2 reads")
    link = page.get_by_role("link", name="Compare with…")
    link.focus()
    agent.write(*read(4, session))
    expect(page.locator(".glance")).to_contain_text("4 calls")
    expect(link).to_be_focused()
    summary.focus()
    agent.write(*read(5, session))
    expect(summary).to_contain_text("4 files in services/ — 4 reads")
    expect(summary).to_be_focused()


def test_run_opens_in_place_and_by_address(site: Site, page: Page) -> None:
    session = "opened-run"
    agent = opened(site, page, session)
    agent.write(*read(1, session), *read(2, session), assistant_message("Done.", 1, session))
    first = page.locator("article.tool-call").first
    summary = page.locator("article.run > details > summary")

    expect(page.locator("article.message")).to_have_count(2)
    expect(first).to_be_hidden()
    summary.focus()
    page.keyboard.press("Enter")
    expect(first).to_be_visible()
    page.keyboard.press("j")
    expect(first.locator("> header .head")).to_be_focused()
    page.keyboard.press("Space")
    expect(first).to_have_attribute("data-level", "full")
    assert violations(page) == []

    name = first.get_attribute("id")
    page.goto(f"{page.url.partition('#')[0]}#{name}")
    page.reload()
    expect(page.locator(f"#{name}")).to_be_in_viewport()


def test_subagent_opens_and_closes(site: Site, page: Page) -> None:
    session = "subagent-rows"
    agent = opened(site, page, session)
    agent.write(called("Task", {"description": "writers", "prompt": "Find them"}, "task", session))
    task = page.locator("article.tool-call", has_text="writers").first
    summary = task.locator("> details > summary")
    inner = task.locator("article.tool-call", has_text="ls")

    agent.write(*read(1, session, parent_tool_use_id="task"))
    agent.write({**called("Bash", {"command": "ls"}, "ls", session), "parent_tool_use_id": "task"})
    expect(summary).to_have_text("2 calls")
    expect(inner).to_be_visible()
    agent.write({**answered("ls", "a", session), "parent_tool_use_id": "task"}, answered("task", "Three.", session))
    expect(task).to_have_attribute("data-status", "completed")
    expect(inner).to_be_visible()  # nothing closes under the reader's eyes

    page.reload()
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    expect(summary).to_have_text("2 calls")
    expect(inner).to_be_hidden()
    summary.click()
    expect(inner).to_be_visible()
    task.locator("> header .head").click()
    expect(task).to_have_attribute("data-level", "full")
    expect(inner).to_be_visible()
    assert violations(page) == []


def test_divider_fills_while_the_turn_goes_on(site: Site, page: Page) -> None:
    session = "divided"
    agent = opened(site, page, session)
    divider = page.locator("article.turn > header")
    expect(divider.locator(".title")).to_have_text(re.compile(r"\d:\d\d"))
    expect(divider.locator(".status")).to_have_text("running")

    ended = {"type": "result", "subtype": "success", "is_error": False, "duration_ms": 360_000, "result": "ok"}
    used = {"total_cost_usd": 0.71, "usage": {"input_tokens": 1_000, "output_tokens": 20}, "session_id": session}
    agent.write(assistant_message("Done.", 1, session), {**ended, **used})

    expect(divider.locator(".status")).to_have_text("completed")
    expect(divider.locator(".took")).to_have_text("6 min")
    live = texts(divider)
    assert page.locator("article:is(.usage, .session):visible").count() == 0
    page.reload()
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    expect(divider.locator(".took")).to_have_text("6 min")
    assert texts(divider) == live


@pytest.mark.parametrize("width", [360, 1440])
def test_rows_fit_the_screen(site: Site, page: Page, width: int) -> None:
    """No sideways scroll; on a phone everything that is tapped has 44 px."""
    session = f"rows-{width}"
    page.set_viewport_size({"width": width, "height": 800})
    agent = opened(site, page, session)
    agent.write(*read(1, session), *read(2, session))
    agent.write(called("Bash", {"command": "pytest -q " + "tests/very/long/path/" * 9}, "b", session))
    agent.write(answered("b", "Exit code 1\n1 failed, 31 passed in 2s", session, is_error=True))
    agent.write(assistant_message("Done.", 1, session))
    expect(page.locator("article.message")).to_have_count(2)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    failed = page.locator('article[data-status="failed"] > header')
    expect(failed.locator(".exit")).to_be_in_viewport(ratio=1)
    for one in page.locator("article.tool-call:visible > header, article.run > details > summary").all():
        box = one.bounding_box()
        assert box is not None
        assert box["height"] >= (44 if width < 720 else 20)


HEARD = """
window.heard = "";
const add = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, handle) {
    add.call(this, name, (event) => { handle(event); window.heard += event.data ?? ""; });
};
"""
"""Records what comes live, after the page has been told."""


def test_press_on_a_row_that_changes_meanwhile_counts(site: Site, tab: Tab) -> None:
    session, page = "pressed", tab.page
    tab.context.add_init_script(HEARD)
    agent = opened(site, page, session)
    agent.write(called("Bash", {"command": "make test"}, "c1", session))
    call = page.locator("article.tool-call")
    head = call.locator("> header .head")
    expect(head).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#outline a", has_text="Look around")).to_contain_text("1 call")

    head.hover()
    page.mouse.down()
    agent.write(answered("c1", "12 passed", session), called("Bash", {"command": "make lint"}, "c2", session))
    page.wait_for_function("() => window.heard.includes('make lint')")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert call.count() == 1
    page.mouse.up()

    expect(call).to_have_count(2)
    expect(call.first.locator("> header .head")).to_have_attribute("aria-expanded", "true")
    expect(call.first).to_contain_text("12 passed")
