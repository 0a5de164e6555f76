"""`tooltap top`: the running sessions, live on a terminal, once in a pipe; and `tooltap open`."""

from __future__ import annotations

import json
import os
import re
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, environment, here, sentence
from tests.cli.screen import Screen, started
from tests.daemon.running import TIMEOUT, Running, Wire, running
from tooltap.cli.read.running import COLUMNS, board, running_sessions

CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def update(name: str, **fields: Any) -> bytes:
    return line(method="session/update", params={"sessionId": name, "update": fields})


@contextmanager
def working(daemon: Running, name: str, title: str) -> Iterator[Wire]:
    """An agent in a session, in an open turn, with a shell command."""
    with daemon.connect() as wire:
        wire.send("ingest", stream=name, dialect="acp", provider="gemini")
        wire.until("ingesting")
        wire.write(line(id=1, method="session/new", params={"cwd": "/tmp/ws", "mcpServers": []}))
        wire.write(line(id=1, result={"sessionId": name}))
        wire.write(update(name, sessionUpdate="session_info_update", title=title))
        prompt = [{"type": "text", "text": "go"}]
        wire.write(line(id=2, method="session/prompt", params={"sessionId": name, "prompt": prompt}))
        command = {"command": f"make {name} " + "x" * 300}
        started_one = {"toolCallId": "c", "title": "make", "kind": "execute", "status": "in_progress"}
        wire.write(update(name, sessionUpdate="tool_call", rawInput=command, **started_one))
        until(daemon, lambda opened: any(one["session"] == name for one in opened["calls"]))
        yield wire


def ask(wire: Wire, daemon: Running, name: str) -> None:
    call = {"toolCallId": "c", "title": "Remove everything"}
    options = [{"optionId": "o", "name": "Allow", "kind": "allow_once"}]
    params = {"sessionId": name, "toolCall": call, "options": options}
    wire.write(line(id=9, method="session/request_permission", params=params))
    until(daemon, lambda opened: bool(opened["permissions"]))


def until(daemon: Running, reached: Any) -> None:
    with daemon.connect() as wire:
        deadline = time.monotonic() + TIMEOUT
        while not reached(wire.ask("calls")):
            assert time.monotonic() < deadline, "it does not come to that"


@contextmanager
def watching(daemon: Running, size: tuple[int, int] = (24, 80)) -> Iterator[Screen]:
    command = [*COMMAND, "top", "--socket", str(daemon.path)]
    with started(command, environment(TERM="xterm"), size=size) as screen:
        yield screen


def lines_and_echo(screen: Screen) -> bool:
    """Whether the terminal reads lines and echoes, as it does for a shell."""
    flags = screen.modes()[3]
    assert isinstance(flags, int)
    return bool(flags & termios.ICANON and flags & termios.ECHO)


def frame(screen: Screen) -> list[str]:
    """The lines of the next frame."""
    screen.shown = b""
    screen.until(b"\x1b[H")
    screen.shown = screen.shown.partition(b"\x1b[H")[2]  # before it may be the end of another frame
    screen.until(b"\x1b[J")
    drawn = screen.shown.decode(errors="replace").partition("\x1b[J")[0]
    return CONTROLS.sub("", drawn).splitlines()


def test_board_changes_with_events_and_size_and_gives_the_terminal_back(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, working(daemon, "one", "First title") as wire, watching(daemon) as screen:
        screen.until(b"First title")
        screen.until(b"make one")
        ask(wire, daemon, "one")
        screen.until(b"waiting for you")
        screen.until(b"Remove everything")
        assert not lines_and_echo(screen)
        screen.resize(24, 40)
        while max(map(len, frame(screen))) > 40:  # those that were drawn before
            pass
        screen.type(b"q")
        assert screen.end() == 0

        assert lines_and_echo(screen)
    assert screen.shown.endswith(b"\x1b[?25h\x1b[?1049l")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_gives_the_terminal_back(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with running(tmp_path) as daemon, watching(daemon) as screen:
        screen.until(b"Nothing runs.")
        os.kill(screen.pid, number)

        assert screen.end() == code
        assert lines_and_echo(screen)
    assert screen.shown.endswith(b"\x1b[?25h\x1b[?1049l")


def test_daemon_that_goes_away_is_named(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, watching(daemon) as screen:
        screen.until(b"Nothing runs.")
        daemon.call(daemon.daemon.stop)
        screen.until(b"no daemon is listening")
        screen.type(b"q")

        assert screen.end() == 0


def test_pipe_gets_a_table(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, working(daemon, "one", "First"), working(daemon, "two", "Second") as wire:
        ask(wire, daemon, "two")
        head, *rows = [text.split("\t") for text in here("top", "--socket", daemon.path).stdout.decode().splitlines()]

    assert head == list(COLUMNS)
    assert [(row[0], row[1], row[2], row[8]) for row in rows] == [
        ("waiting", "two", "gemini", "Second"),
        ("running", "one", "gemini", "First"),
    ]
    assert "asks: " in rows[0][4]
    assert rows[0][4].endswith("answer in gemini, in /tmp/ws")
    assert rows[1][4].startswith("▸ Bash make one")


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_board_fits(columns: int) -> None:
    sessions: list[dict[str, Any]] = [
        {
            "session": f"s{number}",
            "status": "running",
            "state": "open",
            "turn": "started",
            "title": "Long 標題 " * 40,
            "provider": "p" * 50,
        }
        for number in range(20)
    ]
    sessions[3] |= {
        "status": "waiting",
        "model": "m" * 90,
        "inputTokens": 10**12,
        "costUsd": -1e308,
        "cwd": "/" + "d" * 300,
        "lastTs": 1,
    }
    permission = {"session": "s3", "name": "Bash", "title": "x" * 400, "ts": 10**15}
    calls = [{"session": f"s{number}", "name": "n" * 90, "preview": "y" * 40, "ts": 5} for number in range(20)]
    going_on = running_sessions(sessions, {"permissions": [permission], "calls": calls})
    lines = board(going_on, 3, 100_000, (columns, 20), colour=False, problem="z" * 500)

    from tooltap.cli.common.columns import columns_of

    assert len(lines) <= 20
    assert max(map(columns_of, lines)) <= columns
    assert lines[0] == "tooltap · 19 sessions run · 1 waiting for you · 3 others"
    assert lines[3].startswith("waiting Long")
    assert lines[4].startswith("        ? asks: Bash xxx")
    assert lines[-1] == "and 12 more"


# -- open ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon"), web={"enabled": True, "listen": "127.0.0.1:0"}) as one:
        arguments = ("--socket", one.path, "--session", "a b", "--dialect", "acp")
        assert here("ingest", *arguments, stdin=b"x\n").returncode == 1  # no line is understood, but it is stored
        yield one


def test_link_leads_to_the_session(with_page: Running) -> None:
    plain = here("open", "--no-browser", "--socket", with_page.path).stdout.decode()
    session = here("open", "last", "--no-browser", "--socket", with_page.path).stdout.decode()

    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/#login=[\w-]+\n", plain)
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/sessions/a%20b#login=[\w-]+\n", session)
    assert plain.partition("#")[2] != session.partition("#")[2]


@pytest.mark.process
def test_browser_gets_the_link(with_page: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/address\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    finished = here("open", "--socket", with_page.path)

    assert (finished.returncode, finished.stdout) == (0, b"")
    deadline = time.monotonic() + TIMEOUT
    while not (tmp_path / "address").exists():
        assert time.monotonic() < deadline, "the browser was not started"
        time.sleep(0.02)
    assert "#login=" in (tmp_path / "address").read_text()


def test_link_is_printed_without_a_browser(with_page: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)

    assert b"#login=" in here("open", "--socket", with_page.path).stdout


def test_page_that_is_not_served_is_one_sentence(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert sentence(here("open", "--socket", daemon.path)).startswith("the daemon does not serve browsers")
