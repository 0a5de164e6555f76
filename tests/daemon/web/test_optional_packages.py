"""An installation without extras: the daemon follows every agent, serves the page, and takes telemetry in."""

from __future__ import annotations

import json
from pathlib import Path

from tests.daemon.processes import DaemonProcess
from tests.daemon.web.browsing import Browser
from tooltap.daemon.doctor import EXTRAS
from tooltap.daemon.web.http.token import load_token

HIDE = """import sys
sys.modules.update(dict.fromkeys({modules}))
"""
"""A program at the start of each Python, where no import of these modules succeeds."""


def test_daemon_without_optional_packages_does_all_that_needs_none(tmp_path: Path) -> None:
    modules = sorted({module for extra in EXTRAS.values() for module in extra.modules})
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDE.format(modules=modules))
    config = tmp_path / "c.toml"
    config.write_text(f"[web]\ntoken_file = {json.dumps(str(tmp_path / 'token'))}\n")
    browser_token = load_token(tmp_path / "token")
    options = ("--web", "127.0.0.1:0", "--follow", "all", "--config", config)
    with DaemonProcess(tmp_path, *options, HOME=str(tmp_path), PYTHONPATH=str(hidden)) as daemon:
        browser = Browser(daemon.wait_ready().log[-1]["web"], browser_token)
        body, headers = b'{"resourceLogs": []}', {"Content-Type": "application/json"}

        assert browser.get("/healthz").status == 200
        assert browser.get("/v1/logs", headers, method="POST", body=body).status == 200
        refused = browser.get("/v1/logs", {**headers, "Content-Encoding": "br"}, method="POST", body=body)

    assert (refused.status, refused.json["message"]) == (
        400,
        "the body cannot be read: its coding 'br' needs the package brotli, which is not installed",
    )
