"""Where a session opens is the reader's choice, and what is new is new to this browser."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab
from tests.browser.pages import prefer
from tests.browser.recordings import assistant_message
from tests.browser.serving import Publisher, Site
from tests.browser.working import asking_agent
from tooltap.daemon.web.page.addresses import session_url


def said(numbers: range, session: str) -> list[dict[str, Any]]:
    return [assistant_message(f"Message {number}.\n\n" + "One line.\n\n" * 5, number, session) for number in numbers]


def published(site: Site, session: str, count: int) -> Publisher:
    agent = site.publish(session, "claude-stream")
    agent.write({"type": "system", "subtype": "init", "session_id": session, "cwd": "/src", "model": "m"})
    agent.write(*said(range(count), session))
    agent.wait_stored()
    return agent


def opened(site: Site, page: Page, session: str) -> None:
    site.enter(page, session_url(session))
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")


def message(page: Page, number: int) -> Any:
    return page.locator("article.message", has_text=f"Message {number}.")


def test_opens_at_its_end_by_default(site: Site, page: Page) -> None:
    published(site, "ends", 40)
    opened(site, page, "ends")

    expect(message(page, 39)).to_be_in_viewport()


def test_opens_at_what_is_new_to_this_browser(site: Site, page: Page, browser: Browser) -> None:
    agent = published(site, "news", 40)
    opened(site, page, "news")
    expect(message(page, 39)).to_be_in_viewport()
    page.wait_for_function("() => localStorage.getItem('tooltap-seen')?.includes('news')")
    prefer(page, opens="unread")
    expect(message(page, 39)).to_be_in_viewport()
    page.goto("about:blank")
    agent.write(*said(range(40, 200), "news"))
    agent.wait_stored()

    opened(site, page, "news")
    expect(message(page, 40)).to_be_in_viewport()
    expect(message(page, 48)).not_to_be_in_viewport()

    with Tab(browser) as other:
        opened(site, other.page, "news")
        prefer(other.page, opens="unread")
        expect(message(other.page, 199)).to_be_in_viewport()  # it has shown the end before


def test_session_that_was_never_shown_opens_at_its_beginning(site: Site, page: Page) -> None:
    published(site, "seen", 5)
    published(site, "unseen", 300)
    opened(site, page, "seen")
    prefer(page, opens="unread")

    opened(site, page, "unseen")
    expect(message(page, 0)).to_be_in_viewport()


def test_opens_at_what_waits(site: Site, page: Page) -> None:
    agent = asking_agent(site, "waits", "Clean up", "rm -rf build")
    for number in range(60):
        update = {"sessionUpdate": "tool_call", "toolCallId": f"m{number}", "title": "make", "kind": "execute"}
        params = {"sessionId": "waits", "update": {**update, "status": "pending", "rawInput": {"command": "make"}}}
        agent.write({"jsonrpc": "2.0", "method": "session/update", "params": params})
    agent.wait_stored()
    opened(site, page, "waits")
    request = page.locator("#feed article.permission-request")
    expect(request).to_be_attached()
    expect(request).not_to_be_in_viewport()
    prefer(page, opens="waiting")
    expect(request).to_be_in_viewport()


def test_link_to_an_event_opens_there(site: Site, page: Page) -> None:
    published(site, "linked", 60)
    opened(site, page, "linked")
    prefer(page, opens="unread")
    seq = message(page, 30).get_attribute("data-seq")

    site.enter(page, session_url("linked", at=int(seq or 0)) + f"#e{seq}")

    expect(message(page, 30)).to_be_in_viewport()
