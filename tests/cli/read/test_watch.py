"""`watch`: a bell and one line for each question and each end of a turn."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, Child, environment, here, sentence, start
from tests.cli.screen import started
from tests.daemon.events import commit, event
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import until
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent, Turn

CLOCK = re.compile(r"^\d\d:\d\d ")


@contextmanager
def watching(daemon: Running, *words: object) -> Iterator[Child]:
    with start("watch", "--socket", daemon.path, *words) as child:
        until(lambda: bool(daemon.stats()["subscribers"]), "its subscription")
        yield child


def turn(daemon: Running, name: str, *states: str, provider: str = "claude") -> None:
    """Commit turns of a session in a stream of their own."""
    known: dict[str, Any] = {"session": name, "provider": provider}
    begun = event(SessionEvent, name, state="started", title=f"Title of {name}", cwd="/src/shop", **known)
    turns = [event(Turn, name, index=index, state=one, ts=wall_clock(), **known) for index, one in enumerate(states, 1)]
    daemon.commit(commit(begun, *turns, stream=name))


def ask(daemon: Running, name: str, base: int = 1, **fields: Any) -> None:
    fields = {"permission_id": "p", "type": "permission", "name": "Bash", "title": "make", "session": name, **fields}
    asked = event(PermissionRequest, name, line=base + 1, ts=wall_clock(), provider="codex", **fields)
    daemon.commit(commit(asked, stream=name, base=base))


def test_lines_in_a_pipe(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        turn(daemon, "old", "started", "completed")
        turn(daemon, "shop", "started", provider="codex")
        ask(daemon, "shop")
        with watching(daemon, "--after", 0) as watch:
            lines = [watch.line()]
            turn(daemon, "one", "started", "completed")
            lines.append(watch.line())
            turn(daemon, "two", "started", "failed")
            lines.append(watch.line())
            ask(daemon, "shop", base=2, permission_id="q", title="make all\x1b[31m")
            lines.append(watch.line())
            watch.send_signal(signal.SIGINT)
            assert watch.end() == (130, b"", b"")
    assert [line.decode().rstrip("\n").split("\t") for line in lines] == [
        ["waiting", "shop", "codex waits for you: shop", "Bash make"],
        ["done", "one", "claude is done: shop", "Title of one"],
        ["failed", "two", "claude has failed: shop", "Title of two"],
        ["waiting", "shop", "codex waits for you: shop", "Bash make all"],
    ]


def test_bell_on_a_terminal(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        turn(daemon, "shop", "started", provider="codex")
        command = [*COMMAND, "watch", "--socket", str(daemon.path), "--after", "0"]
        with started(command, environment(TERM="xterm", NO_COLOR="1"), size=(24, 40)) as screen:
            until(lambda: bool(daemon.stats()["subscribers"]), "its subscription")
            ask(daemon, "shop", title="make a-rather-long-target\a")
            screen.until(b"\n")
            os.kill(screen.pid, signal.SIGINT)
            assert screen.end() == 130
    bell, line = screen.shown.decode().split("\r\n")[0].split("\a")
    assert (bell, CLOCK.sub("", line)) == ("", "codex waits for you: shop  Bash m…")


def test_only_what_is_wanted(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        turn(daemon, "shop", "started", provider="codex")
        ask(daemon, "shop")
        words = ("--on", "done", "--on", "waiting", "--agent", "claude", "--project", "shop", "--after", 0)
        with watching(daemon, *words) as watch:
            turn(daemon, "two", "started", "failed")
            turn(daemon, "one", "started", "completed")
            assert watch.line().split(b"\t")[:2] == [b"done", b"one"]


def test_answer_in_time_rings_nothing(tmp_path: Path) -> None:
    """The request is answered before it has waited for long enough; the one after it rings."""
    with running(tmp_path) as daemon, watching(daemon, "--after", 2) as watch:
        turn(daemon, "shop", "started", provider="codex")
        ask(daemon, "shop")
        known: dict[str, Any] = {"session": "shop", "provider": "codex", "line": 3}
        answered = event(PermissionResponse, "shop", permission_id="p", outcome="allowed", **known)
        daemon.commit(commit(answered, stream="shop", base=2))
        ask(daemon, "shop", base=3, permission_id="q", title="second")
        began = time.monotonic()
        assert watch.line().endswith(b"Bash second\n")
        assert time.monotonic() - began > 1.5


def test_daemon_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    with ExitStack() as commands:
        with running(tmp_path) as daemon:
            watch = commands.enter_context(watching(daemon, "--after", 0))
            turn(daemon, "one", "started", "completed")
            assert watch.line().split(b"\t")[1] == b"one"
        assert watch.log_line().endswith(b"; waiting for it\n")
        with running(tmp_path) as again:
            turn(again, "two", "started", "failed")
            assert watch.line().split(b"\t")[1] == b"two"


@pytest.mark.parametrize("words", [("--on", "bored"), ("--after", "-1")])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    assert here("watch", *words).returncode == 2


def test_no_daemon(tmp_path: Path) -> None:
    finished = here("watch", "--socket", tmp_path / "none")
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished).startswith("no daemon is listening")
