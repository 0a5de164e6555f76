"""An exporter to which the daemon says 503 sends its batch again, and nothing is lost or there twice."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.processes import DaemonProcess
from tests.daemon.taps.log_records import encoded, event, request
from tests.daemon.web.browsing import Browser, Response
from tooltap.daemon.web.http.token import read_token

SESSIONS = ("s-1", "s-2")
BATCHES = 50
MOST = 300_000
"""Bytes by which the journal may grow."""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[DaemonProcess]:
    config = tmp_path / "config.toml"
    token = json.dumps(str(tmp_path / "token"))
    config.write_text(f'[web]\nenabled = true\nlisten = "127.0.0.1:0"\ntoken_file = {token}\n')
    with DaemonProcess(tmp_path, "--config", config) as process:
        yield process.wait_ready()


@pytest.fixture
def exporter(process: DaemonProcess, tmp_path: Path) -> Browser:
    return Browser(process.log[-1]["web"], read_token(tmp_path / "token"))


def prompt(number: int) -> str:
    return f"{number} ".ljust(4_000, "x")


def export(exporter: Browser, number: int) -> Response:
    """Send a batch with a prompt in each session, which is the same whenever it is sent."""
    records = [
        event("user_prompt", number, one, prompt=prompt(number), prompt_length=len(prompt(number))) for one in SESSIONS
    ]
    return exporter.get(
        "/v1/logs", {"Content-Type": "application/json"}, method="POST", body=encoded(request(*records))
    )


def allow(process: DaemonProcess, size: int) -> None:
    """Limit the size of the daemon's files, which stands in for a full disk: both make SQLite's write fail."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (size, most))


def prompts(process: DaemonProcess) -> Counter[tuple[str, str]]:
    with process.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        events = [json.loads(line) for line in wire.lines()]
    return Counter((one["session"], one["text"]) for one in events if one.get("kind") == "message")


def test_batch_that_the_journal_refuses_is_taken_when_it_is_sent_again(
    process: DaemonProcess, exporter: Browser, tmp_path: Path
) -> None:
    size = sum(one.stat().st_size for one in tmp_path.glob("journal.db*"))
    allow(process, size + MOST)
    refused = {}
    for number in range(1, BATCHES + 1):
        if (answer := export(exporter, number)).status != 200:
            refused[number] = answer
    assert {(one.status, one.headers["retry-after"], one.json["code"]) for one in refused.values()} == {(503, "5", 14)}
    assert 0 < len(refused) < BATCHES

    allow(process, resource.RLIM_INFINITY)
    assert {export(exporter, number).status for number in refused} == {200}
    assert prompts(process) == dict.fromkeys(
        ((session, prompt(number)) for session in SESSIONS for number in range(1, BATCHES + 1)), 1
    )
