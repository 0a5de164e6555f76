"""What the buttons of the page copy: of a masked journal, nothing that is masked elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.daemon.web.browsing import Browser as WebClient
from tests.secrets.shapes import fakes

SECRETS = [one for one in fakes(5) if "\n" not in one.text and "/" not in one.text][:40]
ALL = "\n".join(one.text for one in SECRETS)
IN_FOLDER = SECRETS[0].secret
SESSION = "copied"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A daemon with a masked journal."""
    with Site(tmp_path_factory.mktemp("copies"), "mask_journal = true") as site:
        agent = site.publish("copies", "claude-stream")
        agent.write(
            {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": f"/src/{IN_FOLDER}", "model": "m"},
            {"type": "user", "message": {"role": "user", "content": ALL}, "session_id": SESSION},
            called("Bash", {"command": ALL}, "c1", SESSION),
            answered("c1", ALL, SESSION),
            assistant_message(ALL, 1, SESSION),
        )
        agent.finish()
        yield site


@pytest.fixture
def copying(browser: Browser) -> Iterator[Page]:
    with Tab(browser, permissions=["clipboard-read", "clipboard-write"]) as tab:
        yield tab.page


def copied_by_every_button(page: Page) -> list[str]:
    """Click each button that copies; what is folded is opened first."""
    page.locator("details:has(button.copy)").evaluate_all("all => all.forEach(one => one.open = true)")
    buttons = page.locator("button.copy:visible")
    expect(buttons).not_to_have_count(0)
    copied = []
    for button in buttons.all():
        page.evaluate("navigator.clipboard.writeText('')")
        button.click()
        expect(button).to_have_text("Copied")
        copied.append(str(page.evaluate("navigator.clipboard.readText()")))
    assert all(copied)
    return copied


def test_json_of_an_event_is_copied_masked(site: Site, copying: Page) -> None:
    events = WebClient(site.url, site.token).get(f"/api/events?after=start&session={SESSION}").json["events"]
    kinds = {}
    for one in events:
        if one["kind"] in ("message", "tool-call", "tool-result"):
            site.enter(copying, f"/events/{one['seq']}")
            texts = copied_by_every_button(copying)
            assert [json.loads(text)["seq"] for text in texts] == [one["seq"]] * len(texts)
            kinds[one["kind"], one.get("role")] = "\n".join(texts)
    assert {role for _, role in kinds} == {None, "user", "assistant"}
    assert [place for place, text in kinds.items() if text.count("[masked ") < len(SECRETS)] == []
    assert [(place, one.shape) for place, text in kinds.items() for one in SECRETS if one.secret in text] == []


@pytest.mark.parametrize("page_of", [f"/sessions/{SESSION}", f"/sessions/{SESSION}/details"])
def test_commands_are_copied_masked(site: Site, copying: Page, page_of: str) -> None:
    site.enter(copying, page_of)
    copied = copied_by_every_button(copying)
    assert any(f"tooltap show {SESSION}" in one or f"claude --resume {SESSION}" in one for one in copied)
    assert [one for one in copied if IN_FOLDER in one] == []
