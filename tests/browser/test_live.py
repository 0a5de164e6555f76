"""Live events on the page: cards, growing text, and a daemon that is killed and comes back."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.chromium import Tab
from tests.browser.recordings import CLAUDE, assistant_message, lines
from tests.browser.serving import Publisher, Site

LIVE = re.compile("Live")
AWAY = re.compile("reconnecting|away")


def test_link_admits_and_token_leaves_the_address(site: Site, page: Page) -> None:
    page.goto(site.link + "&stream=nobodys")

    expect(page).to_have_url(f"{site.url}/?stream=nobodys")
    page.reload()
    expect(page.locator("#connection")).to_have_text(LIVE)
    expect(page.locator("#empty")).to_be_visible()


def test_without_link_is_one_sentence(site: Site, tab: Tab) -> None:
    tab.expected = "403"

    response = tab.page.goto(site.url)

    assert response is not None
    assert response.status == 403
    assert "tooltap serve link" in response.text()
    assert [one for one in tab.requests if not one.endswith("/favicon.ico")] == [f"{site.url}/"]


def test_live_result_joins_its_call(site: Site, page: Page) -> None:
    agent = opened(site, page, "one-card")
    recorded = lines(CLAUDE / "shell-fails.jsonl")
    bash = page.locator("article.tool-call")

    agent.write(*recorded[:11])

    expect(bash).to_contain_text("exit 3")
    expect(bash).to_have_attribute("data-status", "running")

    agent.write(recorded[11])

    expect(bash).to_have_attribute("data-status", "failed")
    expect(bash.locator('[data-slot="output"]')).to_contain_text("boom: something broke")
    expect(bash.locator("> header .status")).to_have_text("failed")

    agent.write(*recorded[12:])
    agent.finish()

    expect(page.locator("article.message")).to_contain_text("The command failed with exit code 3.")
    expect(page.locator("article.tool-result")).to_have_count(1)
    expect(page.locator("#sessions")).to_contain_text("claude-opus-5-5")


def test_partial_text_is_replaced_by_message(site: Site, page: Page) -> None:
    agent = opened(site, page, "growing")
    recorded = lines(CLAUDE / "text-only.jsonl")
    growing = page.locator("[data-piece]")

    agent.write(*recorded[:5])
    expect(growing).to_have_text("Hello from the scr")

    agent.write(recorded[5])
    expect(growing).to_have_text("Hello from the scripted model.")

    agent.write(recorded[6])
    expect(page.locator("article.message")).to_contain_text("Hello from the scripted model.")
    expect(growing).to_have_count(0)


def test_subagent_events_are_in_card_of_call(site: Site, page: Page) -> None:
    opened(site, page, "subagents").write(*lines(CLAUDE / "subagents-parallel.jsonl"))

    tasks = page.locator("#feed > section > article.tool-call")
    expect(tasks).to_have_count(2)
    for task in tasks.all():
        inside = task.locator('> [data-slot="children"] article.tool-call > header .title')
        expect(inside).to_have_text(["Grep", "Read"])


def test_page_resumes_after_daemon_was_killed(tmp_path: Path, tab: Tab) -> None:
    """No card is lost or duplicated, and expired events are reported."""
    settings = ("retention_bytes = 65536", "retention_interval = 0.2")
    tab.expected = "net::ERR"
    messages = tab.page.locator("article.message .prose")
    state = tab.page.locator("#connection")
    with Site(tmp_path, *settings) as site:
        site.enter(tab.page)
        site.publish("before", "claude-stream").write(assistant_message("said before", 1))
        expect(messages).to_have_text(["said before"])

        site.kill()
        expect(state).to_have_attribute("data-state", AWAY)
        site.start()
        agent = site.publish("after", "claude-stream")
        agent.write(assistant_message("said while nobody listened", 2))
        expect(state).to_have_text(LIVE)
        agent.write(assistant_message("said after", 3))

        three = ["said before", "said while nobody listened", "said after"]
        expect(messages).to_have_text(three)
        expect(tab.page.locator(".gap")).to_have_count(0)
        tab.page.reload()
        expect(messages).to_have_text(three)

        site.kill()
        tab.context.set_offline(True)
        expect(state).to_have_attribute("data-state", AWAY)
        site.start()
        much = site.publish("much", "claude-stream")
        much.write(*(assistant_message(f"{number} " + "word " * 400, number) for number in range(100)))
        much.finish()
        site.wait_for("old events deleted")
        tab.context.set_offline(False)

        expect(state).to_have_text(LIVE)
        expect(tab.page.locator(".gap")).to_contain_text("were not kept")


def opened(site: Site, page: Page, stream: str) -> Publisher:
    """Open the page of a new agent's stream."""
    site.enter(page, stream=stream)
    expect(page.locator("#connection")).to_have_text(LIVE)
    return site.publish(stream, "claude-stream")
