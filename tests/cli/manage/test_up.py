"""`tooltap up`: one command, no flag, no settings."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from click import ClickException

from tests.cli.command import COMMAND, TIMEOUT, sentence
from tests.daemon.constants import VARIABLE, program
from tests.daemon.running import running
from tests.daemon.taps.following import CLAUDE, append, lines_of, moved_to_now
from tests.newcomer import Home, fill, measure, stored, up
from tests.test_layout import ROOT
from tooltap.cli.common import terminal
from tooltap.cli.manage import up as product
from tooltap.cli.manage.up import Progress, describe
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.config import Config, load_config
from tooltap.daemon.system.listener import ListenError

FIXTURES = Path(__file__).parents[2] / "fixtures"
SLOW = 90.0
"""Seconds that a busy machine may take for what is promised within 15."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home", 0)


def test_newcomer_sees_all_sessions(tmp_path: Path) -> None:
    """`make lab-newcomer` measures it."""
    shown = measure(fill(tmp_path / "home", stored(FIXTURES)), SLOW)

    assert shown.first <= shown.all


class Terminal:
    """`tooltap up` at a terminal, which is read. Its daemon has time to end: usually 1.7 s."""

    def __init__(self, home: Home, *options: str, **changes: str) -> None:
        ours, theirs = pty.openpty()
        patient = {VARIABLE: json.dumps({"shutdown_timeout": 60.0}), "PYTHONPATH": str(ROOT)}
        env = home.environment | {"TERM": "xterm"} | patient | changes
        self.process = subprocess.Popen(
            [sys.executable, "-m", program(env), "up", *options],
            env=env,
            cwd=home.path,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._screen = open(ours, "rb", buffering=0)  # noqa: SIM115 -- closed by `end`
        self.shown = ""

    def until(self, wanted: str) -> str:
        while not re.search(wanted, self.shown):
            self.shown += self._screen.read(4_096).decode()
        return self.shown

    def end(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            while data := self._screen.read(4_096):
                self.shown += data.decode()
        except OSError:  # the other end is closed
            pass
        self._screen.close()
        return self.process.wait(TIMEOUT)


def test_it_starts_and_joins(tmp_path: Path) -> None:
    home = fill(tmp_path / "home", stored(FIXTURES), 3)
    first = Terminal(home, "--no-open")
    first.until(r"3 sessions · .*3 of 3 stored files read")
    [link] = re.findall(r"page: (http://127\.0\.0\.1:\d+)/#login=[\w-]{30,}\r\n", first.shown)

    statistics = ask("stats", path=home.socket)
    assert (statistics["web"]["url"], statistics["limits"]["follow"]["agents"]) == (link, ["all"])
    second = Terminal(home, "--no-open")
    second.until("3 sessions")
    assert f"a daemon is already running (pid {first.process.pid})" in second.shown
    assert second.end() == 0
    assert ask("ping", path=home.socket) == {}
    assert first.end() == 0
    assert not home.socket.exists()


def test_no_login_where_no_terminal_shows_it(home: Home) -> None:
    with up(home) as daemon:
        output = home.path.parent / "output"
        while b"0 sessions" not in output.read_bytes():
            assert daemon.poll() is None, output.read_bytes()
            time.sleep(0.05)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(TIMEOUT) == 0

    text = output.read_text()
    assert "{" not in text
    assert re.search(r"^page: http://127\.0\.0\.1:\d+ \(`tooltap serve link` prints ", text, re.MULTILINE)
    assert "#login" not in text


def test_terminal_has_no_log(home: Home) -> None:
    """It is in a file, unless it is asked for."""
    (home.path / ".config" / "tooltap").mkdir(parents=True)
    (home.path / ".config" / "tooltap" / "tooltap.toml").write_text('log_level = "info"\n')
    quiet = Terminal(home, "--no-open")
    quiet.until("0 sessions")
    assert quiet.end() == 0
    verbose = Terminal(home, "--no-open", "--verbose")
    verbose.until("listening")
    assert verbose.end() == 0

    assert "listening" not in quiet.shown
    log = home.path / ".local" / "share" / "tooltap" / "up.log"
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()].count("listening") == 1


def test_drift_is_one_sentence() -> None:
    found = [("alarm", "codex"), ("note", "pi"), ("alarm", "claude"), ("alarm", "codex")]
    statistics = {"drift": {"findings": [{"severity": severity, "provider": agent} for severity, agent in found]}}

    assert product._drifted(statistics) == (
        "some output of claude, codex is new to this version: `tooltap drift` shows it"
    )
    assert product._drifted({}) == ""


def test_progress_comes_by_subscription(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When all is read, the daemon is asked only after an event."""
    monkeypatch.setattr(product, "CALM", 3_600.0)
    monkeypatch.setattr(product, "PERIOD", 0.01)
    waiting = SimpleQueue[None]()
    wait = product._News.wait

    def note(news: product._News, seconds: float) -> None:
        waiting.put(None)
        wait(news, seconds)

    monkeypatch.setattr(product._News, "wait", note)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    projects = tmp_path / "claude" / "projects" / "-ws"
    projects.mkdir(parents=True)
    ended = threading.Event()
    shown = ""
    with running(tmp_path, follow={"agents": ["claude"], "grace": 0.0}) as daemon:
        showing = threading.Thread(target=product.show_progress, args=(daemon.path, ended))
        showing.start()
        waiting.get(timeout=SLOW)
        append(projects / "a.jsonl", moved_to_now(lines_of(CLAUDE)))
        while "1 session · all stored sessions read" not in shown:
            waiting.get(timeout=SLOW)
            shown += capsys.readouterr().err
        ended.set()
    showing.join(SLOW)
    assert not showing.is_alive()


def test_daemon_without_a_page_is_one_sentence(home: Home) -> None:
    with subprocess.Popen([*COMMAND, "serve"], env=home.environment, stderr=subprocess.PIPE) as daemon:
        try:
            assert daemon.stderr is not None
            while b"listening" not in daemon.stderr.readline():
                pass
            arguments = [*COMMAND, "up"]
            finished = subprocess.run(arguments, env=home.environment, capture_output=True, timeout=TIMEOUT)
        finally:
            daemon.kill()

    assert finished.returncode == 1
    assert "serves no page: end it with `tooltap serve stop`" in sentence(finished)


@pytest.mark.parametrize(("found", "used"), [(["127.0.0.1:1", "127.0.0.1:2"], True), (["127.0.0.1:1"] * 2, False)])
def test_port_that_was_taken_meanwhile(found: list[str], used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def run(config: Config, *_: object, **__: object) -> None:
        tried.append(config.web.listen)
        if len(tried) == 1:
            raise ListenError("Address already in use")

    monkeypatch.setattr("tooltap.daemon.process.run", run)
    left = iter(found)
    monkeypatch.setattr("tooltap.cli.manage.up._free_address", lambda: next(left))
    with nullcontext() if used else pytest.raises(ClickException, match="Address already in use"):
        product._start(opens=False, verbose=True, socket=None)

    assert tried == (found if used else found[:1])


def test_settings_of_the_user_win(tmp_path: Path) -> None:
    file = tmp_path / "tooltap.toml"
    file.write_text('log_level = "debug"\n[follow]\nagents = ["codex"]\n')
    usual: dict[str, Any] = {"follow": {"agents": ["all"], "backfill": "all"}, "log_level": "warning"}
    config = load_config(file, unless_set=usual, web={"enabled": True})

    assert (config.log_level, config.follow.agents, config.follow.backfill) == ("debug", ("codex",), "all")
    assert load_config(None, unless_set=usual).follow.agents == ("all",)


@pytest.mark.parametrize(
    ("variables", "opens"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({}, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, False),
        ({"DISPLAY": ":0", "PATH": "/nowhere"}, False),
        ({"BROWSER": "xdg-open:lynx", "SSH_TTY": "/dev/pts/1"}, True),
        ({"BROWSER": "xdg-open %s"}, True),
        ({"BROWSER": "'"}, False),
    ],
)
@pytest.mark.process
def test_browser_opens_where_somebody_sees_it(
    variables: dict[str, str], opens: bool, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser is a program that notes what it is to open."""
    program = home.path / "bin" / "xdg-open"
    program.parent.mkdir()
    opened = home.path / "opened"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.platform", "linux")
    for name in (*terminal.REMOTE, *terminal.DISPLAYS, terminal.BROWSER):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"PATH": f"{program.parent}:{os.environ['PATH']}"} | variables).items():
        monkeypatch.setenv(name, value)

    assert terminal.open_in_browser("http://127.0.0.1:1/") == opens
    while opens and not opened.exists():
        time.sleep(0.02)
    assert not opens or opened.read_text() == "http://127.0.0.1:1/\n"


BACKFILL = {"files": 8, "filesDone": 2, "bytes": 200, "bytesDone": 50, "complete": False}
DONE = {**BACKFILL, "filesDone": 8, "bytesDone": 200, "complete": True}
NOTHING = {**DONE, "files": 0}
LISTING = {**NOTHING, "complete": False}


@pytest.mark.parametrize(
    ("progress", "live", "text"),
    [
        (Progress(1, 0, 0, 0.0, None, None), True, "1 session"),
        (Progress(1_000, 2, 0, 1_200.5, None, None), True, "1,000 sessions · 2 running · 1,200 events/s"),
        (Progress(3, 0, 1, 1.5, None, None), False, "3 sessions · 1 waiting for you"),
        (Progress(3, 0, 0, 9.0, BACKFILL, None), False, "3 sessions · 2 of 8 stored files read (25 %)"),
        (Progress(3, 0, 0, 0.0, LISTING, None), False, "3 sessions · looking for stored sessions"),
        (Progress(3, 0, 0, 0.0, DONE, "disk full"), False, "3 sessions · 8 of 8 stored files read · disk full"),
        (Progress(3, 0, 0, 0.0, NOTHING, None), False, "3 sessions · all stored sessions read"),
        (Progress(0, 0, 0, 0.0, NOTHING, None), False, "0 sessions"),
    ],
)
def test_line(progress: Progress, live: bool, text: str) -> None:
    assert describe(progress, live=live) == text
