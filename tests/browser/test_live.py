"""Live events on the page: cards, growing text, and a daemon that is killed and comes back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Tab
from tests.browser.recordings import CLAUDE, CLAUDE_TRANSCRIPT, assistant_message, lines, recording
from tests.browser.serving import Publisher, Site
from tests.browser.tunnel import Tunnel
from tests.daemon.web.browsing import free_port

LIVE = re.compile("Live")
AWAY = re.compile("reconnecting|away")


def test_live_result_joins_its_call(site: Site, page: Page) -> None:
    agent = opened(site, page, "one-card")
    recorded = lines(CLAUDE / "shell-fails.jsonl")
    bash = page.locator("article.tool-call")

    agent.write(*recorded[:11])

    expect(bash).to_contain_text("echo partial output")
    expect(bash).to_have_attribute("data-status", "running")

    agent.write(recorded[11])

    expect(bash).to_have_attribute("data-status", "failed")
    bash.locator("> header .head").click()
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
    session = b"76aa483f-c82c-4560-923a-c7f92d260b44"
    recorded = lines(CLAUDE / "subagents-parallel.jsonl")
    # Other tests publish this recording at the same site. In a second copy, what subagents did would be history.
    opened(site, page, "subagents").write(*(line.replace(session, session[::-1]) for line in recorded))

    tasks = page.locator("#feed > section > article.tool-call")
    expect(tasks).to_have_count(2)
    for task in tasks.all():
        inside = task.locator('> [data-slot="children"] article.tool-call > header .title')
        expect(inside).to_have_text(["Grep", "Read"])


SPAWNED = CLAUDE_TRANSCRIPT / "subagent-async.jsonl"
AGENT = CLAUDE_TRANSCRIPT / "subagent-async.agent.jsonl"


def test_subagent_of_another_stream_is_in_card_of_call(site: Site, page: Page) -> None:
    """Live as after a reload, whichever stream comes first."""
    session, call = "2f40b229-18f4-43db-8092-c2cc387ac019", "toolu_01f4dfea411e7f4c22aef2c79d"
    parent = site.publish("its-parent", "claude-transcript")
    parent.write(*lines(SPAWNED)[:3])
    site.enter(page, session=session)
    expect(page.locator("#connection")).to_have_text(LIVE)
    task = page.locator("article.tool-call", has_text="Find where greet")
    inside = task.locator('> [data-slot="children"] article.card > header .title')

    agent = site.publish("its-agent", "claude-transcript", session=session, agent="ad0a7d162f9d16959")
    agent.write(*lines(AGENT))
    expect(page.locator("#feed article.tool-call")).not_to_have_count(0)
    parent.write(*lines(SPAWNED)[3:])

    expect(task.locator("> header")).to_be_visible()
    steps = ["Prompt", "Grep", "Read", "Assistant"]
    expect(inside).to_have_text(steps)
    expect(task.locator("> details > summary")).to_contain_text("2 calls")
    page.reload()
    expect(inside).to_have_text(steps)
    assert call in str(task.get_attribute("data-call"))


@pytest.mark.parametrize("query", [{"kind": "tool-call"}, {"text": "exit 3"}, {"tool": "Bash"}], ids=str)
def test_state_is_true_whatever_is_hidden(site: Site, page: Page, query: dict[str, str]) -> None:
    """Live, after a reload, and when the card is opened and closed."""
    stream = f"hides-{next(iter(query))}"
    agent = opened(site, page, stream, **query)
    recorded = lines(CLAUDE / "shell-fails.jsonl")
    bash = page.locator("article.tool-call")
    status = bash.locator("> header .status")

    agent.write(*recorded[:11])
    expect(status).to_have_text("running")
    agent.write(*recorded[11:])
    expect(status).to_have_text("failed")
    bash.locator("> header .head").click()
    expect(bash).to_have_attribute("data-level", "full")
    expect(status).to_have_text("failed")
    page.reload()
    expect(status).to_have_text("failed")


def test_request_does_not_wait_when_it_is_answered(site: Site, page: Page) -> None:
    """Also where the filter hides the answer."""
    site.enter(page, "/events", stream="asks", kind="permission-request")
    expect(page.locator("#connection")).to_have_text(LIVE)
    site.ingest(recording("acp/copilot-1.0.102/shell"), stream="asks")
    states = page.locator("article.permission-request > header .status")

    expect(states).to_have_text("answered")
    page.reload()
    expect(states).to_have_text("answered")


def test_partial_is_replaced_by_message_after_reconnecting(site: Site, page: Page) -> None:
    """The daemon knows nothing of what an earlier connection has sent."""
    agent = opened(site, page, "cut-off")
    recorded = lines(CLAUDE / "text-only.jsonl")
    growing = page.locator("[data-piece]")

    agent.write(*recorded[:6])
    expect(growing).to_have_text("Hello from the scripted model.")
    reconnect(page)
    expect(growing).to_have_text("Hello from the scripted model.")
    agent.write(recorded[6])

    expect(page.locator("article.message")).to_contain_text("Hello from the scripted model.")
    expect(growing).to_have_count(0)


def test_page_resumes_after_daemon_was_killed(tmp_path: Path, tab: Tab) -> None:
    """No card is lost or duplicated, and expired events are reported."""
    settings = ("retention_bytes = 65536", "retention_interval = 0.2")
    tab.expected = "net::ERR"
    messages = tab.page.locator("article.message .prose")
    state = tab.page.locator("#connection")
    with Site(tmp_path, *settings, port=free_port()) as site:
        site.enter(tab.page, "/events")
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
        expect(state).to_have_text(LIVE)  # else the script may never come

        site.kill()
        tab.context.set_offline(True)
        expect(state).to_have_attribute("data-state", AWAY)
        site.start()
        much = site.publish("much", "claude-stream")
        words = [f"{number} " + "word " * 400 for number in range(100)]
        much.write(*(assistant_message(one, number, "much") for number, one in enumerate(words)))
        much.finish()  # the other session has streams that have not ended, and is kept
        site.wait_for("retention has removed events or output bodies")
        tab.context.set_offline(False)

        expect(state).to_have_text(LIVE)
        expect(tab.page.locator(".gap")).to_contain_text("were not kept")


COUNTING = """
window.beats = 0;
window.EventSource = class extends EventSource {
  constructor(address) { super(address); this.addEventListener("heartbeat", () => (window.beats += 1)); }
};
"""


def test_page_notices_that_its_connection_is_dead(tmp_path: Path, tab: Tab) -> None:
    """A tunnel that is stuck says nothing: what is missed are the heartbeats."""
    tab.expected = "net::ERR"
    messages = tab.page.locator("article.message .prose")
    state = tab.page.locator("#connection")
    tab.context.add_init_script(COUNTING)
    with Site(tmp_path, "[web]", "heartbeat = 0.2") as site, Tunnel(site.url) as tunnel:
        agent = site.publish("stuck", "claude-stream")
        site.open(tab.page, site.link(stream="stuck").replace(site.url, tunnel.url))
        expect(state).to_have_text(LIVE)
        agent.write(assistant_message("said before", 1))
        expect(messages).to_have_text(["said before"])
        tab.page.wait_for_function("() => window.beats > 0")  # it says how long to wait for the next one

        tunnel.stick()
        expect(state).to_have_attribute("data-state", AWAY)
        agent.write(assistant_message("said meanwhile", 2))
        tunnel.free()

        expect(state).to_have_text(LIVE)
        expect(messages).to_have_text(["said before", "said meanwhile"])


@pytest.mark.parametrize("signal", ["online", "visibilitychange"])
def test_page_connects_again_when_it_wakes_up(site: Site, page: Page, signal: str) -> None:
    """At once, long before it would notice by itself that the connection is dead."""
    site.enter(page, stream="asleep")
    expect(page.locator("#connection")).to_have_text(LIVE)

    with page.expect_response(lambda response: "/live?" in response.url):
        page.evaluate(
            """(signal) => {
                const now = Date.now() + 60_000;
                Date.now = () => now; // the machine has slept for a minute
                (signal === "online" ? window : document).dispatchEvent(new Event(signal));
            }""",
            signal,
        )


def reconnect(page: Page) -> None:
    """Let the page come back to its events, as from the history."""
    with page.expect_response(lambda response: "/live?" in response.url):
        page.evaluate("() => dispatchEvent(new PageTransitionEvent('pagehide'))")
        page.evaluate("() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")


def opened(site: Site, page: Page, stream: str, **query: str) -> Publisher:
    """Open the page of a new agent's stream."""
    site.enter(page, stream=stream, **query)
    expect(page.locator("#connection")).to_have_text(LIVE)
    return site.publish(stream, "claude-stream")
