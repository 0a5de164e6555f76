"""`tooltap run` knows the prompt of an agent that does not print it: it is the stream's first message of the user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, TIMEOUT, environment
from tests.cli.tap.spooling import Daemon, Place, until
from tests.daemon.constants import program

FLAGS = ["--output-format", "stream-json", "--verbose"]
LONG = "Fix it, please! " * 3_000


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (tmp_path / "bin").mkdir()
    for name, body in {
        "claude": f'test -t 0 || cat >&2\nhead -n 2 "{CLAUDE}"; ${{HOLD:-true}}; tail -n +3 "{CLAUDE}"',
        "codex": """printf '%s\\n' '{"type":"thread.started","thread_id":"t"}' '{"type":"turn.started"}'""",
    }.items():
        script = tmp_path / "bin" / name
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
    return place


def run(place: Place, *command: str, stdin: Any = subprocess.DEVNULL, **changes: str) -> bytes:
    """Run the agent, and return what it has read from standard input."""
    agent, *arguments = command
    env = environment(**place.variables, **changes)
    publisher = [sys.executable, "-m", program(env), "run", "--socket", str(place.socket)]
    finished = subprocess.run(
        [*publisher, "--", str(place.folder / "bin" / agent), *arguments],
        stdin=stdin,
        capture_output=True,
        timeout=TIMEOUT,
        env=env,
        check=True,
    )
    return finished.stderr


def prompts(daemon: Daemon) -> list[str]:
    """The messages of the user, which come before all others."""
    events = [one for one in daemon.events() if one["kind"] not in ("session", "turn")]
    found = [one["text"] for one in events if one.get("role") == "user"]
    assert [one["text"] for one in events[: len(found)]] == found
    return found


@pytest.mark.parametrize("text", ["Fix it", "Grüße 👋\n\t\"quoted\" \\ 'x'", LONG], ids=["short", "odd", "long"])
def test_argument(text: str, place: Place) -> None:
    with place.serving() as daemon:
        run(place, "claude", "-p", text, *FLAGS)

        assert prompts(daemon) == [text]


def test_prompt_waits_for_no_answer(place: Place) -> None:
    """It is there with the start of the turn, while the model thinks."""
    with place.serving() as daemon:
        run(place, "codex", "exec", "--json", "Fix it")

        assert [(one["kind"], one.get("turn")) for one in daemon.events()][:3] == [
            ("session", None),
            ("turn", "t1"),
            ("message", "t1"),
        ]
        assert prompts(daemon) == ["Fix it"]


def test_file_as_standard_input(place: Place) -> None:
    """From where the agent begins to read, and the agent still gets it all."""
    given = place.folder / "prompt.txt"
    given.write_text("not this line\nFix it\nall\n")
    with place.serving() as daemon, given.open("rb", buffering=0) as stdin:
        stdin.read(len("not this line\n"))

        assert run(place, "claude", "-p", *FLAGS, stdin=stdin) == b"Fix it\nall\n"
        assert prompts(daemon) == ["Fix it\nall\n"]


@pytest.mark.parametrize("given", [b"\xff\xfe", b"x" * 200_000, b""], ids=["not UTF-8", "too long", "empty"])
def test_file_that_is_no_prompt(given: bytes, place: Place) -> None:
    path = place.folder / "prompt.txt"
    path.write_bytes(given)
    with place.serving() as daemon, path.open("rb") as stdin:
        assert run(place, "claude", "-p", *FLAGS, stdin=stdin) == given
        assert prompts(daemon) == []


def test_pipe_is_left_to_the_agent(place: Place) -> None:
    with place.serving() as daemon:
        with subprocess.Popen(["echo", "Fix it"], stdout=subprocess.PIPE) as echo:
            assert run(place, "claude", "-p", *FLAGS, stdin=echo.stdout) == b"Fix it\n"

        assert prompts(daemon) == []


def test_daemon_that_was_away(place: Place) -> None:
    run(place, "claude", "-p", LONG, *FLAGS)
    with place.serving() as daemon:
        daemon.wait_until_ended(1)

        assert prompts(daemon) == [LONG]


def test_daemon_that_is_restarted(place: Place) -> None:
    """Before the first event, and after the prompt: it is there once."""
    hold = place.folder / "hold"
    subprocess.run(["mkfifo", hold], check=True)
    claude = str(place.folder / "bin" / "claude")
    variables = environment(**place.variables, HOLD=f"cat {hold}")
    publisher = [sys.executable, "-m", program(variables), "run", "--socket", str(place.socket)]
    command = [*publisher, "--", claude, "-p", "Fix it", *FLAGS]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=variables) as agent:
        with place.serving() as daemon:
            until(lambda: daemon.lines() == 2)
            assert prompts(daemon) == ["Fix it"]
            daemon.process.kill()
        with place.serving() as daemon:
            hold.write_bytes(b"")
            assert agent.wait(TIMEOUT) == 0
            daemon.wait_until_ended(1)

            assert prompts(daemon) == ["Fix it"]
            assert [one for one in daemon.events() if one.get("code") == "reset"] == []


def test_daemon_with_a_smaller_limit_for_frames(place: Place) -> None:
    """Lines are worth more than a prompt."""
    with place.serving("frame_bytes = 2_000") as daemon:
        run(place, "claude", "-p", LONG, *FLAGS)
        daemon.wait_until_ended(1)

        assert prompts(daemon) == []
        assert daemon.lines() == 5
