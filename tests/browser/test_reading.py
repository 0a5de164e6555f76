"""Reading: levels and preferences, taps, filters, the views of an event, links to it, the keyboard."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.pages import prefer
from tests.browser.recordings import CLAUDE, lines, recording
from tests.browser.serving import Site, arrived

STREAM = "reading"


@pytest.fixture(scope="module", autouse=True)
def read(site: Site) -> None:
    """The page of a session with several tools, beside sessions of other agents."""
    agent = site.publish(STREAM, "claude-stream")
    for name in ("grep", "shell-fails", "todos", "edit"):
        agent.write(*(line for line in lines(CLAUDE / f"{name}.jsonl") if b'"stream_event"' not in line))
    agent.finish()
    site.ingest(recording("codex-exec/codex-0.169/patch"), recording("kimi-json/kimi-1.40.0/read"))


@pytest.fixture
def bash(site: Site, page: Page) -> Locator:
    """The card of a command, on the page of its stream."""
    site.enter(page, stream=STREAM)
    return page.locator("article.tool-call", has=page.locator(".title", has_text=re.compile("^Bash$"))).first


def test_default_level_is_applied_and_remembered(page: Page, bash: Locator) -> None:
    body = bash.locator("> .body")
    expect(bash).to_have_attribute("data-level", "title")
    expect(body).to_have_count(0)

    prefer(page, level="summary")

    expect(bash).to_have_attribute("data-level", "summary")
    expect(body).to_be_visible()
    page.reload()
    expect(bash).to_have_attribute("data-level", "summary")


def test_tool_level(page: Page, bash: Locator) -> None:
    prefer(page, level="title", tool="Bash", tool_level="full")

    expect(bash).to_have_attribute("data-level", "full")
    others = page.locator("#feed > section > article.tool-call:not([data-level=full])")
    expect(others.first).to_have_attribute("data-level", "title")


def test_transcript_level(site: Site, page: Page) -> None:
    site.ingest(recording("claude-transcript/claude-code-1.0.128/background-shell"))
    site.enter(page, tool="KillShell")
    prefer(page, level="full", transcripts="title")

    expect(page.locator("article.tool-call").last).to_have_attribute("data-level", "title")


def test_tap_expands_and_collapses_card(page: Page, bash: Locator) -> None:
    prefer(page, level="title", expanded="full")
    head = bash.locator("> header .head")
    expect(head).to_have_attribute("aria-expanded", "false")

    head.click()

    expect(head).to_have_attribute("aria-expanded", "true")
    expect(bash.locator("> .body")).to_contain_text("exit 3")
    expect(bash.locator('> [data-slot="output"]')).to_contain_text("boom: something broke")

    head.click()

    expect(head).to_have_attribute("aria-expanded", "false")
    expect(bash.locator("> .body")).to_have_count(0)


def test_tap_opens_event_if_preferred(page: Page, bash: Locator) -> None:
    prefer(page, tap="open")

    bash.locator("> header .head").click()

    expect(page).to_have_url(re.compile(r"/events/\d+$"))


def test_event_has_three_views(site: Site, page: Page, bash: Locator) -> None:
    seq = bash.get_attribute("data-seq")
    page.goto(f"{site.url}/events/{seq}")

    expect(page.locator("#view-model")).to_contain_text("command: ")
    expect(page.locator("#view-user")).to_contain_text("Same as what the model asked for.")
    expect(page.locator("#view-provider .verdict")).to_have_text("Same")
    raw = page.locator("#json-raw")
    expect(raw.locator(".json")).to_be_hidden()
    raw.locator("summary").click()
    expect(raw.locator(".json")).to_contain_text('"tool_use"')

    told = json.loads(raw.locator(".json").inner_text())
    assert told["input"]["_raw"]["name"] == "Bash"
    page.get_by_role("link", name="Show in the session").click()
    expect(page.locator(f"#e{seq}")).to_be_in_viewport()


def test_json_is_open_if_preferred(site: Site, page: Page, bash: Locator) -> None:
    seq = bash.get_attribute("data-seq")
    prefer(page, debug="on")

    page.goto(f"{site.url}/events/{seq}")

    expect(page.locator("#json-raw .json")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "value", "like_it"),
    [
        ("provider", "kimi", "article[data-provider=kimi]"),
        ("tool", "Patch", "article:has(> header .title:text-is('Patch'))"),
        ("state", "failed", "article[data-status=failed]"),
        ("text", "something broke", "article:has-text('something broke')"),
    ],
)
def test_filter_form(site: Site, page: Page, name: str, value: str, like_it: str) -> None:
    site.enter(page, "/events")
    page.get_by_role("button", name="Filter").click()
    field = page.locator(f"#filters [name={name}]")
    if name in ("provider", "state"):
        field.select_option(value)
    else:
        field.fill(value)
    page.locator("#filters").get_by_role("button", name="Show").click()

    expect(page).to_have_url(re.compile(f"[?&]{name}="))
    arrived(page)  # with all cards
    cards = page.locator("#feed > section > article")
    expect(cards.first).to_be_visible()
    expect(cards).to_have_count(page.locator(f"#feed > section > {like_it}").count())

    page.get_by_role("link", name=re.compile(f"Without {name}")).click()
    expect(page).not_to_have_url(re.compile(f"[?&]{name}="))
    arrived(page)
    expect(page.locator(".chips")).to_have_count(0)


def test_link_to_event_marks_its_card(site: Site, page: Page, bash: Locator) -> None:
    seq = bash.get_attribute("data-seq")
    page.goto(f"{site.url}/events?at={seq}#e{seq}")

    card = page.locator(f"#e{seq}")
    expect(card).to_be_in_viewport()
    expect(card).to_have_css("outline-style", "solid")


def test_keyboard(page: Page, bash: Locator) -> None:
    expect(page.locator("#connection")).to_have_text("Live")
    bash.locator("> header .head").focus()
    seq = bash.get_attribute("data-seq")

    page.keyboard.press("k")
    expect(bash.locator("> header .head")).not_to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(f"#e{seq} > header .head")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator(f"#e{seq} > header .head")).to_have_attribute("aria-expanded", "true")
    expect(page.locator(f"#e{seq} > header .head")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#palette-text")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#palette-text")).to_have_value("j")
    page.keyboard.press("Escape")

    page.locator(f"#e{seq} > header .head").focus()
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(f"/events/{seq}$"))
    expect(page.locator("#views")).to_be_visible()
