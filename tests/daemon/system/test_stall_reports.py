"""What held the daemon is in its statistics, the doctor's findings and the metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.check.plugged import install
from tests.cli.command import here
from tests.daemon.constants import write_settings
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import running
from tests.daemon.test_files_in_use import statistics
from tests.daemon.web.api.test_telling import tell
from tests.daemon.web.browsing import Browser
from tooltap.daemon.config import Config
from tooltap.daemon.doctor import log, stalls
from tooltap.daemon.web.http.token import read_token
from tooltap.protocol.inputs import write_tapped

LONGEST = {"what": "stream s line 7", "ms": 400, "cpuMs": 390, "at": 1, "place": "a.py:1 f"}


def test_statistics_of_a_daemon_that_was_never_held(tmp_path: Path) -> None:
    with running(tmp_path, stall_seconds=3_600.0) as daemon:  # a busy machine holds any daemon up for a moment
        found = daemon.stats()
        printed = here("stats", "--socket", daemon.path).stdout.decode()

    assert found["loop"] == {"limitMs": 3_600_000, "stalls": 0, "longest": None, "recent": []}
    assert Config().stall_seconds == 0.25
    assert found["log"] == {"leftOut": 0}
    assert stalls(found).level == log(found).level == "ok"
    assert "held up" not in printed


@pytest.mark.process
def test_line_that_held_the_daemon_is_named_by_the_log_stats_and_doctor(tmp_path: Path) -> None:
    """And counted by `/metrics`."""
    config, token = tmp_path / "tooltap.toml", tmp_path / "token"
    not_aside = ["long_bytes = 1_000_000_000", "huge_bytes = 1_000_000_000", "stall_seconds = 0.05"]
    web = ["[web]", "enabled = true", 'listen = "127.0.0.1:0"', f'token_file = "{token}"']
    constants = write_settings(config, "\n".join([*not_aside, *web]))
    with DaemonProcess(tmp_path, "--config", config, **constants).wait_ready() as daemon, daemon.connect() as wire:
        wire.send("ingest", stream="heavy", framing="tapped", dialect="claude-stream")
        wire.until("ingesting")
        number, held = 0, statistics(daemon)["loop"]
        # On a busy machine the start of the daemon may hold it for longer than a line.
        while not number or held["longest"]["what"] != f"stream heavy line {number}":
            number += 1
            wire.write(write_tapped(heavy(60_000 * 2**number), 1_700_000_000_000, "out") + b"\n")
            wire.until("ack")
            held = statistics(daemon)["loop"]
        what = f"stream heavy line {number}"
        printed = here("stats", "--socket", daemon.path).stdout.decode()
        reported = json.loads(here("doctor", "--json", "--socket", daemon.path).stdout)["findings"]
        while daemon.next_log().get("what") != what:
            pass
        [url] = [one["web"] for one in daemon.log if one.get("event") == "listening"]
        counted = Browser(url, read_token(token)).get("/metrics").body.decode()

    assert re.search(rf"held up \d+ times?, at worst \d+ ms: {what}", printed)
    [replies] = [one for one in reported if one["area"] == "replies"]
    assert (replies["level"], replies["text"].rpartition(": ")[2]) == ("note", what)
    assert int(re.findall(r"^tooltap_loop_stalls_total (\d+)", counted, re.MULTILINE)[0]) >= 1


def heavy(numbers: int) -> bytes:
    """A line of Claude Code that takes long to read."""
    command = [[number] for number in range(numbers)]
    use = {"type": "tool_use", "id": f"u{numbers}", "name": "Bash", "input": {"command": command}}
    return json.dumps({"type": "assistant", "session_id": "S", "message": {"id": "m", "content": [use]}}).encode()


BOUND = 0.05
THOUGHT = "it has thought for too long"
SLOW = """
import time
from tooltap.normalizers.core.answers import CannotWriteError
from tooltap.normalizers.core.lines import Lines
from tooltap.normalizers.core.parser import Parser
from tooltap.protocol.events import Message

class Slow(Parser):
    dialect = protocol = default_provider = "slow"
    line = Lines("slow")

    @line("says", text=str)
    def _says(self, value):
        self.emit(Message, role="assistant", text=value["text"])

    def word_answer(self, request, chosen, option):
        raise CannotWriteError("it never asks")

    def word_prompt(self, session, text, id):
        until = time.thread_time() + float(text)
        while time.thread_time() < until:
            pass
        raise CannotWriteError("it has thought for too long")
"""
"""A package with a dialect whose prompts say for how many seconds it computes."""


def prompt_over_the_socket(daemon: DaemonProcess, browser: Browser, attempt: int) -> None:
    with daemon.connect() as wire:
        wire.send("send", id=1, session="s", text=f"{BOUND * 2**attempt}")
        assert THOUGHT in wire.until("reply")[-1]["error"]["message"]


def prompt_over_http(daemon: DaemonProcess, browser: Browser, attempt: int) -> None:
    answer = tell(browser, "/api/send", {"session": "s", "text": f"{BOUND * 2**attempt}"})
    assert THOUGHT in answer.error[2]


@pytest.mark.parametrize("ask", [prompt_over_the_socket, prompt_over_http])
def test_request_that_held_the_daemon_is_named_by_the_log_stats_and_doctor(
    tmp_path: Path, ask: Callable[[DaemonProcess, Browser, int], None]
) -> None:
    what = "request send"
    config, token = tmp_path / "tooltap.toml", tmp_path / "token"
    web = f'[web]\nenabled = true\nlisten = "127.0.0.1:0"\ntoken_file = "{token}"\n'
    config.write_text(f"stall_seconds = {BOUND}\n{web}")
    path = install(tmp_path / "package", "slow", SLOW)
    with DaemonProcess(tmp_path, "--config", config, PYTHONPATH=path).wait_ready() as daemon, daemon.connect() as tap:
        [url] = [one["web"] for one in daemon.log if one.get("event") == "listening"]
        browser = Browser(url, read_token(token))
        tap.send("ingest", stream="s", framing="tapped", dialect="slow", toAgent=True)
        tap.write(write_tapped(b'{"slow": "says", "text": "Hi"}', 1_700_000_000_000, "out") + b"\n")
        tap.until("ack")
        attempts, longest = count(1), None
        # On a busy machine the start of the daemon may hold it for longer than a request.
        while longest is None or longest["what"] != what:
            ask(daemon, browser, next(attempts))
            longest = statistics(daemon)["loop"]["longest"]
        printed = here("stats", "--socket", daemon.path).stdout.decode()
        reported = json.loads(here("doctor", "--json", "--socket", daemon.path).stdout)["findings"]
        while daemon.next_log().get("what") != what:
            pass

    assert longest["ms"] > 1_000 * BOUND
    assert re.search(rf"held up \d+ times?, at worst \d+ ms: {what}", printed)
    [replies] = [one for one in reported if one["area"] == "replies"]
    assert (replies["level"], replies["text"].rpartition(": ")[2]) == ("note", what)


def test_findings_name_what_held_the_daemon() -> None:
    held: dict[str, Any] = {"limitMs": 250, "stalls": 2, "longest": LONGEST, "recent": [LONGEST]}
    found = stalls({"loop": held})

    assert found.level == "note"
    assert found.text == "the daemon did not reply for more than 250 ms 2 times, at worst 400 ms: stream s line 7"
    assert "busy" not in (found.advice or "")
    held |= {"stalls": 1, "longest": {**LONGEST, "cpuMs": 20}}
    assert " once, at worst" in stalls({"loop": held}).text
    assert stalls({"loop": held}).advice == "The machine was busy."


def test_findings_name_a_log_that_is_not_whole() -> None:
    assert "3 lines" in log({"log": {"leftOut": 3}}).text


def test_older_daemons_have_no_such_statistics() -> None:
    assert stalls({}).level == log({}).level == "ok"
