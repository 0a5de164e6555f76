"""The system's Chromium, and a tab that records everything that a page must not do. No browser is downloaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.programs import found

__all__ = ["PROGRAM", "Tab", "close", "launched", "leave", "violations"]

TIMEOUT = 60_000
"""Timeout for a condition in milliseconds; two cores may be shared by many tests, and the first page of a new browser
waits for all of its processes."""
PROGRAM = "chromium|chromium-browser|google-chrome"
LISTENER = """
addEventListener("securitypolicyviolation",
    event => console.error("CSP", event.violatedDirective, event.blockedURI, event.sourceFile));
"""

expect.set_options(timeout=TIMEOUT)


@contextmanager
def launched(*arguments: str) -> Iterator[Browser]:
    """Run Chromium. Playwright's event loop occupies the thread meanwhile, so no other loop can run in it."""
    playwright: Playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found(PROGRAM),
            args=[
                "--disable-gpu",
                "--disable-gpu-rasterization",
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                *arguments,
            ],
            timeout=TIMEOUT,
        )
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page in a profile of its own. `wrong` lists what no page of ours may do: errors in the console, exceptions,
    dialogs, violations of the Content-Security-Policy, requests to other hosts. It must be empty at the end of the
    block."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(TIMEOUT)
        self.context.add_init_script(LISTENER)
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.expected = ""
        """Text of an expected error, which is not recorded: a test's own changes to the page may be reported in the
        console."""
        self.requests: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._note(f"exception: {error}"))
        self.page.on("dialog", self._asked)
        self.page.on("popup", lambda popup: self._note(f"popup: {popup.url}"))
        self.context.on("request", lambda request: self._requested(request.url))

    def _note(self, wrong: str) -> None:
        if not self.expected or self.expected not in wrong:
            self.wrong.append(wrong)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(f"console: {message.text}")

    def _asked(self, dialog: Dialog) -> None:
        self._note(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, url: str) -> None:
        self.requests.append(url)
        if urlsplit(url).hostname not in ("127.0.0.1", None):
            self._note(f"request: {url}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._answers()
        close(self.context)
        if error is None:
            assert self.wrong == [], self.wrong

    def _answers(self) -> None:
        """Fail if a page hangs, which may not show when it is closed."""
        try:
            for page in self.context.pages:
                page.wait_for_function("() => true")
        except Error:
            self.context.close()
            raise


def close(context: BrowserContext) -> None:
    """Close a profile, with all pages."""
    try:
        for page in context.pages:
            leave(page)
    finally:
        context.close()


def leave(page: Page) -> None:
    """Leave what a page shows, before it is closed: Chromium never says that it is closed if it gets to another address
    meanwhile. What the test's last click has begun may come first."""
    while True:
        try:
            page.goto("about:blank")
        except Error as error:
            if "interrupted" not in error.message:
                raise
        else:
            return


def violations(page: Page, *rules: str, within: str = "body") -> list[str]:
    """Return what axe finds serious or critical, as `rule: where`; with `rules`, only their violations."""
    only = {"runOnly": rules} if rules else {}
    found = Axe().run(page, within, {"resultTypes": ["violations"], **only}).response["violations"]
    return [
        f"{rule['id']}: {' '.join(map(str, node['target']))} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
