"""A browser in a storm: `python -m tests.storm.browser URL TOKEN_FILE RECORD` follows the newest sessions, reloads, and
writes down each error that no fault explains."""

from __future__ import annotations

import signal
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Error

from tests.browser.chromium import Tab, launched
from tests.daemon.web.browsing import Browser

EXPLAINED = ("Failed to load resource", "net::ERR_", "Failed to fetch", "NetworkError", "network error", "aborted")
"""Parts of errors that a browser reports when the daemon is away."""
WATCHES = 4.0
"""Seconds for which it looks at a page."""


def main(url: str, token_file: str, record: str) -> None:
    stopping = threading.Event()
    # An exception in the handler could be raised within Playwright, which then waits for ever.
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    with launched() as browser:
        tab = Tab(browser)
        tab.page.set_default_timeout(10_000)
        while not stopping.is_set():
            try:
                _look(tab, url, Path(token_file).read_text().strip())
            except (Error, OSError, HTTPException, ValueError, KeyError, AssertionError):  # the daemon is away
                time.sleep(0.5)
            wrong = [one for one in tab.wrong if not any(part in one for part in EXPLAINED)]
            with Path(record).open("a") as file:
                file.writelines(f"{one!r}\n" for one in wrong)
            tab.wrong.clear()


def _look(tab: Tab, url: str, token: str) -> None:
    programs = Browser(url, token)
    sessions = programs.get("/api/sessions?limit=5").json["sessions"]
    target = f"/sessions/{sessions[0]['session']}" if sessions else "/"
    code = urlsplit(programs.get("/api/logins", method="POST").json["link"]).fragment
    for page in (target, "/", "/board"):
        tab.page.goto(f"{url}{page}#{code}")
        code = ""
        tab.page.wait_for_timeout(WATCHES * 1_000)
        tab.page.reload()


if __name__ == "__main__":
    main(*sys.argv[1:])
