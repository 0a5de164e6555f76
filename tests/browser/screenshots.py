"""`python -m tests.browser.screenshots [--readme]`: the main states of the page, as pictures in build/ to look at;
`--readme` makes the one in the README, docs/page.png, anew."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.chromium import Tab, launched
from tests.browser.pages import prefer
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.cli.command import DEMO
from tests.test_layout import ROOT

SESSION = "greeter"
BUILD = ROOT / "build"
README = ROOT / "docs" / "page.png"
DESKTOP = {"viewport": {"width": 1280, "height": 860}}
PHONE = {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
FAILED = """\x1b[31mF\x1b[0m\x1b[32m..\x1b[0m                                      \x1b[31m[100%]\x1b[0m
\x1b[1m\x1b[31mE       AssertionError: assert 'Hello, !' == 'Hello, world!'\x1b[0m
\x1b[31mFAILED\x1b[0m tests/test_app.py::\x1b[1mtest_without_a_name\x1b[0m
\x1b[31m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 0.04s
"""
PASSED = (
    "\x1b[32m...\x1b[0m                                      \x1b[32m[100%]\x1b[0m\n\x1b[32m3 passed\x1b[0m in 0.03s\n"
)
EDIT = {
    "file_path": "src/app.py",
    "old_string": 'def greet(name):\n    """Return a greeting."""\n    return "Hello, " + name + "!"\n',
    "new_string": 'def greet(name):\n    """Return a greeting."""\n    return f"Hello, {name or \'world\'}!"\n',
}
PROJECTS = {"claude-code": "/build", "opencode": "/website", "gemini": "/docs", "codex": "/parser"}
"""Recordings of the demo, and the folders in which they might have been made."""
STEPS = ("Run the tests", "Fix the greeting", "Run the tests again")


def todos(done: int) -> dict[str, Any]:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(STEPS)
    return {"todos": [{"content": step, "status": state} for step, state in zip(STEPS, states, strict=False)]}


def play(site: Site) -> None:
    """Play the demo, and a session that continues."""
    with TemporaryDirectory() as directory:
        for name, project in PROJECTS.items():
            moved = (DEMO / f"{name}.jsonl").read_bytes().replace(b"/tmp/ws", project.encode())
            (Path(directory) / name).write_bytes(moved)
        site.ingest(*(Path(directory) / name for name in PROJECTS))
    agent = site.publish("scene", "claude-stream")
    agent.write(
        {
            "type": "system",
            "subtype": "init",
            "session_id": SESSION,
            "cwd": "/home/you/greeter",
            "model": "claude-opus-5-5",
        },
        {
            "type": "user",
            "message": {"role": "user", "content": "The tests fail, please repair it."},
            "session_id": SESSION,
        },
        called("TodoWrite", todos(1), "c1", SESSION),
        answered("c1", "Todos have been modified.", SESSION),
        called("Bash", {"command": "pytest -q"}, "c2", SESSION),
        answered("c2", f"Exit code 1\n{FAILED}", SESSION, is_error=True),
        assistant_message("`greet` does not expect an **empty** name. I'll give it a default:", 1, SESSION),
        called("Edit", EDIT, "c3", SESSION),
        answered("c3", "The file src/app.py has been updated.", SESSION),
        called("TodoWrite", todos(2), "c6", SESSION),
        answered("c6", "Todos have been modified.", SESSION),
        called("Bash", {"command": "pytest -q"}, "c4", SESSION),
        answered("c4", PASSED, SESSION),
        assistant_message("All three tests pass now.", 2, SESSION),
        called("Task", {"description": "Look for other greetings", "prompt": "Find every greeting."}, "c5", SESSION),
    )


def timeline(site: Site, page: Page) -> None:
    site.enter(page, session=SESSION)
    page.locator("article.tool-call", has_text="Look for other greetings").wait_for()


def titles(site: Site, page: Page) -> None:
    timeline(site, page)
    prefer(page, level="title")


def all_sessions(site: Site, page: Page) -> None:
    site.enter(page, "/events")
    page.locator("article.card").last.wait_for()


def preferences(site: Site, page: Page) -> None:
    timeline(site, page)
    page.locator('[popovertarget="preferences"]').first.click()


def event(site: Site, page: Page) -> None:
    timeline(site, page)
    prefer(page, tap="open", debug="on")
    page.locator("article.tool-call .head", has_text="Edit").first.click()
    page.locator("#view-provider").wait_for()


def difference(site: Site, page: Page) -> None:
    site.enter(page, "/events", state="failed", session=SESSION)
    seq = page.locator("article.tool-result, article.tool-call").last.get_attribute("data-seq")
    site.open(page, f"{site.url}/events/{seq}")
    page.locator("#view-provider").scroll_into_view_if_needed()


def share(site: Site, page: Page) -> None:
    site.enter(page, f"/sessions/{SESSION}/share")
    page.locator("#files").wait_for()


def exported(site: Site, page: Page) -> None:
    share(site, page)
    with page.expect_download() as started:
        page.get_by_role("link", name="HTML", exact=True).click()
    file = site.directory / "session.html"
    started.value.save_as(file)
    page.goto(file.as_uri())


def filtered(site: Site, page: Page) -> None:
    site.enter(page, state="failed")


def sessions(site: Site, page: Page) -> None:
    timeline(site, page)
    page.get_by_role("button", name="Sessions").click()


def doorstep(site: Site, page: Page) -> None:
    page.goto(site.url)
    page.locator("#out").wait_for()


def old_link(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/?token=old")
    page.get_by_role("alert").wait_for()


def logins(site: Site, page: Page) -> None:
    site.enter(page, "/logins")
    page.locator("tr[aria-current]").wait_for()


PICTURES: list[tuple[str, Callable[[Site, Page], None], dict[str, Any]]] = [
    ("timeline-light", timeline, {**DESKTOP, "color_scheme": "light"}),
    ("timeline-dark", timeline, {**DESKTOP, "color_scheme": "dark"}),
    ("titles", titles, DESKTOP),
    ("all-sessions", all_sessions, {**DESKTOP, "color_scheme": "dark"}),
    ("preferences", preferences, DESKTOP),
    ("event", event, {**DESKTOP, "color_scheme": "dark"}),
    ("difference", difference, {**DESKTOP, "color_scheme": "light"}),
    ("share", share, {**DESKTOP, "color_scheme": "light"}),
    ("share-phone", share, {**PHONE, "color_scheme": "dark"}),
    ("exported", exported, {**DESKTOP, "color_scheme": "light"}),
    ("filtered", filtered, DESKTOP),
    ("doorstep", doorstep, {**DESKTOP, "color_scheme": "light"}),
    ("doorstep-phone", old_link, {**PHONE, "color_scheme": "dark"}),
    ("logins", logins, {**DESKTOP, "color_scheme": "light"}),
    ("logins-phone", logins, {**PHONE, "color_scheme": "dark"}),
    ("phone", timeline, {**PHONE, "color_scheme": "dark"}),
    ("phone-sessions", sessions, PHONE),
]


def take(browser: Browser, site: Site, show: Callable[[Site, Page], None], path: Path, options: dict[str, Any]) -> None:
    with Tab(browser, reduced_motion="reduce", **options) as tab:
        tab.expected = "style"  # Playwright's own, which hides the caret
        show(site, tab.page)
        tab.page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)} {path.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readme", action="store_true")
    wants_readme = parser.parse_args().readme
    with TemporaryDirectory() as directory, Site(Path(directory)) as site, launched() as browser:
        play(site)
        if wants_readme:
            take(browser, site, timeline, README, {**DESKTOP, "color_scheme": "light"})
            return
        BUILD.mkdir(exist_ok=True)
        for name, show, options in PICTURES:
            take(browser, site, show, BUILD / f"page-{name}.png", options)


if __name__ == "__main__":
    main()
