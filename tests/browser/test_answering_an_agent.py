"""From a click to the agent: a daemon process, an agent that speaks ACP, and what is written to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.browser.chromium import Tab
from tests.browser.serving import Site
from tests.browser.test_home import ASKS


class Agent:
    """An agent whose publisher writes to it what the daemon sends."""

    def __init__(self, site: Site) -> None:
        self._wire = site.daemon.connect()
        self._wire.send("ingest", stream="asks", dialect="acp", provider="gemini", framing="tapped", toAgent=True)
        self._wire.until("ingesting")

    def print(self, line: dict[str, Any], direction: str = "out") -> None:
        self._wire.write(json.dumps({"dir": direction, "line": line}).encode() + b"\n")

    def take(self) -> dict[str, Any]:
        """Take the next line from the daemon, which the agent then has."""
        frame = self._wire.until("to-agent")[-1]
        line: dict[str, Any] = json.loads(frame["payload"]["line"])
        self._wire.write(json.dumps({"op": "to-agent", "id": frame["id"]}).encode() + b"\n")
        self.print(line, "in")
        return line

    def close(self) -> None:
        self._wire.close()


def test_click_reaches_the_agent_and_everybody_sees_it(tmp_path: Path, browser: Browser) -> None:
    with Site(tmp_path) as site, Tab(browser) as tab, Tab(browser) as other:
        agent = Agent(site)
        for line in ASKS:
            agent.print(line, "in" if line["id"] in (1, 2) and "method" in line else "out")
        site.enter(tab.page, "/")
        expect(tab.page.locator(".ask")).to_have_attribute("data-ready", "")
        site.enter(other.page, "/sessions/asks")  # which the daemon knows by now
        expect(other.page.locator(".ask")).to_have_attribute("data-ready", "")
        tab.page.get_by_role("button", name="Allow").click()

        assert agent.take() == {
            "jsonrpc": "2.0",
            "id": 0,
            "result": {"outcome": {"outcome": "selected", "optionId": "yes"}},
        }
        for page in (tab.page, other.page):
            expect(page.locator(".ask")).to_have_count(0)
        expect(other.page.locator("article.notice").first).to_contain_text("the page in Chrome")
        agent.print({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})
        expect(other.page.get_by_role("button", name="Stop")).to_be_hidden()
        other.page.get_by_label("A prompt for the agent").fill("And tag it.")
        other.page.get_by_role("button", name="Send").click()

        said = agent.take()
        assert said["method"] == "session/prompt"
        assert said["params"]["prompt"] == [{"type": "text", "text": "And tag it."}]
        expect(other.page.locator(".composer .said")).to_have_text("Sent.")
        agent.close()
