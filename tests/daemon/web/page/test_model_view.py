"""What only the model got is in every view that shows what the model saw: the command, the socket, HTTP, the page, and
an exported page."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.cli.command import here
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.model_texts import wire_texts
from tests.normalizers.reading import FIXTURES
from tooltap.testing import read_recording

WRITTEN = FIXTURES / "claude-stream" / "claude-code-2.1.330-written"


@pytest.mark.parametrize("name", ["hidden-in-shell", "hidden-in-read"])
def test_every_view_has_the_whole_text(name: str, daemon: Running, browser: Browser, tmp_path: Path) -> None:
    path = WRITTEN / f"{name}.jsonl"
    texts = dict(wire_texts("claude-stream", read_recording(path.read_bytes())))
    assert here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", path).returncode == 0
    tail = here("tail", "--socket", daemon.path, "--after", "start", "--no-follow", "--mode", "json").stdout
    results = [one for one in map(json.loads, tail.splitlines()) if one["kind"] == "tool-result"]
    assert {one["callId"] for one in results} == set(texts)
    assert any(one["modelView"].get("differs") for one in results)
    exported = tmp_path / "session.html"
    assert here("export", "--html", path, "-o", exported).returncode == 0

    for one in results:
        text, seq = texts[one["callId"]], one["seq"]
        shown = [json.loads(here("show", "--socket", daemon.path, seq, "--view", "assistant").stdout)]
        with daemon.connect() as wire:
            shown.append(wire.ask("event", seq=seq, view="assistant")["event"])
        shown.append(browser.get(f"/api/events/{seq}?view=assistant").json["event"])
        for event in shown:
            assert "".join(block["text"] for block in event["modelView"]["blocks"]) == text
        last_line = text.rstrip().splitlines()[-1]
        for page in (browser.get(f"/events/{seq}").body.decode(), exported.read_text()):
            assert last_line in html.unescape(page)
