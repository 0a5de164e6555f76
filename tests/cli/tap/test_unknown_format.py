"""An agent whose format tooltap does not know: `run` says so, and the session says no more than that."""

from __future__ import annotations

import sys
from typing import Any

from tests.cli.command import tooltap
from tests.daemon.running import Running

PRINTED = "".join(f'{{"step": {number}}}\n' for number in range(50))
PROGRAM = f"print({PRINTED!r}, end='')\nraise SystemExit(3)"


def events(daemon: Running) -> list[dict[str, Any]]:
    with daemon.subscribe(after="start", follow=False) as wire:
        return [event for event in wire.rest() if "kind" in event]


def test_run_says_that_no_line_is_known_and_changes_nothing(daemon: Running) -> None:
    finished = tooltap("run", "--socket", daemon.path, "--", sys.executable, "-c", PROGRAM)

    known = "none of 50 lines is in a format that tooltap knows; if you know its dialect, name it with --dialect"
    assert finished.stderr.decode() == f"tooltap: {sys.executable}: {known}\n"
    assert (finished.returncode, finished.stdout.decode()) == (3, PRINTED)


def test_session_is_unknown_has_one_notice_and_raises_no_alarm(daemon: Running) -> None:
    tooltap("run", "--socket", daemon.path, "--", sys.executable, "-c", PROGRAM)
    with daemon.connect() as wire:
        [session] = wire.ask("sessions", status=["unknown"])["sessions"]
    drift = tooltap("drift", "--socket", daemon.path)

    notices = [one["text"] for one in events(daemon) if one["kind"] == "notice"]
    assert notices == ["none of 50 lines is in a format that tooltap knows"]
    assert session["status"] == "unknown"
    assert drift.returncode == 0
    assert b"alarm" not in drift.stdout


def test_program_that_prints_nothing_is_not_complained_about(daemon: Running) -> None:
    finished = tooltap("run", "--socket", daemon.path, "--", sys.executable, "-c", "print()")

    assert (finished.returncode, finished.stderr) == (0, b"")
