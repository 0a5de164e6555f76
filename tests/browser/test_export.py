"""An exported session, opened from disk: it works without scripts and loads nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.test_hostile import HOSTILE
from tests.cli.command import here
from tests.daemon.show.carding import made, result
from tests.normalizers.reading import FIXTURES
from tests.secrets.shapes import fakes
from tooltap.protocol.events import AnyEvent, encode

SESSIONS = FIXTURES / "claude-stream" / "claude-code-2.1.330"


def exported(source: Path, *options: str) -> str:
    """Return the address of an exported page."""
    page = source.parent / "session.html"
    assert here("export", "--html", source, "-o", page, *options).stderr == b""
    return page.as_uri()


def recording(folder: Path, name: str) -> Path:
    copy = folder / name
    copy.write_bytes((SESSIONS / name).read_bytes())
    return copy


def lines(folder: Path, *events: AnyEvent) -> Path:
    file = folder / "events.jsonl"
    file.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    return file


def test_hidden_content_unfolds_in_place(page: Page, tmp_path: Path) -> None:
    page.goto(exported(recording(tmp_path, "subagents-parallel.jsonl")))
    read = page.locator("article.tool-call", has_text="Read").locator("article.tool-result").last
    expect(read).to_contain_text("3 more lines")
    read.locator("details.whole > summary").click()
    expect(read).to_contain_text("if __name__")
    expect(read.locator(".brief")).to_be_hidden()


def test_print_opens_what_is_folded(page: Page, tmp_path: Path) -> None:
    page.goto(exported(recording(tmp_path, "subagents-parallel.jsonl")))
    page.emulate_media(media="print")
    read = page.locator("article.tool-call", has_text="Read").locator("article.tool-result").last

    expect(read.locator("details.whole")).not_to_have_attribute("open", "")
    expect(read.locator("details.whole > :not(summary)").first).to_be_visible()
    expect(read.locator(".brief")).to_be_hidden()
    expect(read).to_contain_text("if __name__")


def test_click_on_a_bar_lands_at_its_call(page: Page, tmp_path: Path) -> None:
    page.goto(exported(recording(tmp_path, "subagents-parallel.jsonl")))
    inside = page.locator(".minimap svg g").nth(1).locator("a").last
    anchor = inside.get_attribute("href") or ""

    inside.click()

    expect(page).to_have_url(re.compile(rf"{anchor}$"))
    expect(page.locator(anchor)).to_be_in_viewport()
    expect(page.locator(".minimap")).to_be_in_viewport()


def test_titles_of_the_map_are_masked(page: Page, tmp_path: Path) -> None:
    secret = next(fake.secret for fake in fakes(7) if fake.secret.startswith("ghp_"))
    command = f"curl -H 'Authorization: Bearer {secret}'"
    asked = made("tool-call", callId="c", name="Bash", status="running", input={"command": command}, preview=command)
    source = lines(tmp_path, asked)

    masked = tmp_path / "masked.html"
    assert here("export", "--html", source, "-o", masked).returncode == 0
    page.goto(masked.as_uri())

    title = page.locator(".minimap g a title")
    expect(title).to_contain_text("[masked")
    assert secret not in masked.read_text()


def test_images_are_inside(page: Page, tmp_path: Path) -> None:
    page.goto(exported(recording(tmp_path, "mcp.jsonl")))
    picture = page.locator("figure img")
    picture.scroll_into_view_if_needed()
    expect(picture).to_be_visible()
    page.wait_for_function("document.querySelector('figure img').naturalWidth === 1")


def test_foreign_text_stays_text(page: Page, tmp_path: Path) -> None:
    hostile = [
        made("message", role="assistant", text=HOSTILE),
        made("session", state="started", title=HOSTILE, cwd=HOSTILE, tools=[HOSTILE]),
        result("Task", {"content": HOSTILE}, status="failed", isError=True),
        result("Unknown", {HOSTILE: HOSTILE, "errorMessage": HOSTILE}),
    ]
    # nothing is masked: one of the texts is an address with a password
    page.goto(exported(lines(tmp_path, *hostile), "--level", "full", "--no-redact"))
    expect(page.locator("main")).to_contain_text("<script>alert('script')</script>")
    assert page.locator("script, iframe, form, base, link, svg").count() == 0


@pytest.mark.parametrize(("scheme", "name"), [("light", "todos.jsonl"), ("dark", "control-question.jsonl")])
def test_export_is_accessible(browser: Browser, scheme: str, name: str, tmp_path: Path) -> None:
    with Tab(browser, color_scheme=scheme) as tab:
        tab.page.goto(exported(recording(tmp_path, name)))
        assert violations(tab.page) == []


def test_export_fits_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    with Tab(browser, viewport={"width": 360, "height": 740}) as tab:
        tab.page.goto(exported(recording(tmp_path, "subagents-parallel.jsonl")))
        expect(tab.page.locator(".minimap")).to_be_visible()
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360
