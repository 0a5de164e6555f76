"""Sharing a session in a browser: the preview follows the form, and the files really are downloaded, and inert."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.browser.test_hostile import HOSTILE
from tests.daemon.web.browsing import Browser as WebClient
from tests.secrets.shapes import fakes

SECRET = next(fake.secret for fake in fakes(7) if fake.secret.startswith("ghp_"))
SESSION = "shared"
SHARE = f"/sessions/{SESSION}/share"


def prompt(text: str) -> dict[str, object]:
    return {"type": "user", "message": {"role": "user", "content": text}, "session_id": SESSION}


@pytest.fixture(scope="module", autouse=True)
def stored(site: Site) -> None:
    agent = site.publish("sharing", "claude-stream")
    agent.write(
        {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/home/you/greeter", "model": "m"},
        prompt("Look at the tests"),
        called("Bash", {"command": f"curl -H 'X-Token: {SECRET}'"}, "s1", SESSION),
        answered("s1", "Exit code 1\nno", SESSION, is_error=True),
        assistant_message(HOSTILE, 1, SESSION),
        {"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION, "duration_ms": 14_000},
        prompt("And again"),
        assistant_message("Done.", 2, SESSION),
    )
    agent.finish()


def saved(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as started:
        page.get_by_role("link", name=name, exact=True).click()
    file = folder / started.value.suggested_filename
    started.value.save_as(file)
    return file


def test_file_is_downloaded_and_runs_nothing(site: Site, page: Page, browser: Browser, tmp_path: Path) -> None:
    site.enter(page, f"/sessions/{SESSION}")
    page.get_by_role("link", name="Share or export").click()
    expect(page.get_by_role("heading", name=re.compile("^Share"))).to_be_visible()

    html = saved(page, "HTML", tmp_path)
    markdown = saved(page, "Markdown", tmp_path)

    assert (html.name, markdown.name) == ("shared.html", "shared.md")
    expect(page).to_have_url(re.compile("/share$"))
    assert SECRET not in html.read_text() + markdown.read_text()
    assert "## And again" in markdown.read_text()
    with Tab(browser) as tab:
        tab.page.goto(html.as_uri())
        expect(tab.page.locator("main")).to_contain_text("<script>alert('script')</script>")
        assert tab.page.locator("script, iframe, form, base, link, image, use, [onclick], [onload]").count() == 0
        assert [one for one in tab.requests if not one.startswith(("file:", "data:"))] == []
        tab.page.get_by_role("link", name="And again").click()
        expect(tab.page.locator("article.message:target")).to_be_in_viewport()
        assert violations(tab.page) == []


def test_click_is_not_lost_when_the_head_is_drawn_again(site: Site, page: Page) -> None:
    """As a live event does, between pressing the button of the mouse and releasing it."""
    site.enter(page, f"/sessions/{SESSION}")
    link = page.get_by_role("link", name="Share or export")
    link.hover()
    page.mouse.down()
    page.evaluate(
        """async () => {
          const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
          const { parse, refill } = await import(loaded.find((name) => /\\/cards\\b.*\\.js/.test(name)));
          const head = document.querySelector("#head");
          refill(head, parse(head.innerHTML));
        }"""
    )
    page.mouse.up()
    expect(page).to_have_url(re.compile("/share$"))
    expect(page.get_by_role("heading", name=re.compile("^Share"))).to_be_visible()


def test_preview_follows_the_form(site: Site, page: Page, tmp_path: Path) -> None:
    site.enter(page, SHARE)
    expect(page.locator(".secrets tbody tr")).not_to_have_count(0)

    page.get_by_label("From turn").select_option("2")
    expect(page).to_have_url(re.compile(r"\?content=all&fromTurn=2$"))
    expect(page.locator("#preview")).to_contain_text("No secret was found.")
    expect(page.get_by_label("Leave secrets in the file")).to_have_count(0)
    page.get_by_label("Only the conversation").check()
    expect(page.locator("#files a").first).to_have_attribute("href", re.compile("content=conversation"))
    markdown = saved(page, "Markdown", tmp_path).read_text()
    assert "> And again" in markdown
    assert "> Look at the tests" not in markdown

    page.get_by_label("From turn").select_option("")
    page.get_by_label("Everything").check()
    page.get_by_label("Leave secrets in the file").check()
    expect(page.locator("#files .warning")).to_be_visible()
    assert SECRET in saved(page, "HTML", tmp_path).read_text()
    page.get_by_label("Leave secrets in the file").uncheck()
    expect(page.locator("#files .warning")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_440), ("dark", 360)])
def test_page_is_accessible_and_fits(browser: Browser, site: Site, scheme: str, width: int) -> None:
    with Tab(browser, color_scheme=scheme, viewport={"width": width, "height": 900}) as tab:
        site.enter(tab.page, SHARE)
        expect(tab.page.locator("#files")).to_be_visible()
        assert violations(tab.page) == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_440), ("dark", 360)])
def test_event_with_a_difference_is_accessible_and_fits(browser: Browser, site: Site, scheme: str, width: int) -> None:
    site.ingest(
        Path(__file__).parent.parent / "fixtures/claude-stream/claude-code-2.1.330-written/hidden-in-read.jsonl"
    )
    with Tab(browser, color_scheme=scheme, viewport={"width": width, "height": 900}) as tab:
        newest = WebClient(site.url, site.token).get("/api/events?kind=tool-result&before=now").json["events"]
        seq = next(one["seq"] for one in newest if "HIDDEN" in str(one.get("modelView")))
        site.enter(tab.page, f"/events/{seq}")
        expect(tab.page.locator("#view-user ins", has_text="HIDDEN INSTRUCTION")).to_be_visible()
        assert violations(tab.page) == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
