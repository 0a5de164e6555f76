"""How the agent's process ended: `run` and `proxy` state it, and the open turn and the session end by it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import start, tooltap
from tests.cli.tap.spooling import Place, until
from tests.daemon.running import Running

PROMPTED = (
    '{"type":"system","subtype":"init","session_id":"s","cwd":"/w","tools":[],"model":"m"}',
    '{"type":"assistant","session_id":"s","message":{"id":"m1","role":"assistant","content":['
    '{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"make"}}]}}',
)
"""Lines of an agent that is at work: a call is open."""


def agent(end: str) -> list[str]:
    """The command line of an agent that prints the lines of `PROMPTED`, then does `end`."""
    program = f"import os, signal, sys\nfor line in {PROMPTED!r}: print(line)\n{end}"
    return ["--dialect", "claude-stream", "--", sys.executable, "-u", "-c", program]


def ends(daemon: Running) -> list[dict[str, Any]]:
    """The ends of the turn and the session, without what is the same in all tests."""
    with daemon.subscribe(after="start", follow=False) as wire:
        events = [event for event in wire.rest() if "kind" in event]
    keys = ("kind", "state", "status", "reason", "endedBy", "exitCode", "signal", "stoppedBy")
    return [
        {key: event[key] for key in keys if key in event}
        for event in events
        if event["kind"] == "tool-result" or event.get("state") in ("completed", "failed", "cancelled", "ended")
    ]


def status(daemon: Running) -> str:
    with daemon.connect() as wire:
        [session] = wire.ask("sessions")["sessions"]
    return str(session["status"])


@pytest.mark.parametrize(
    ("name", "end", "state", "words", "stated", "outcome"),
    [
        ("proxy", "sys.exit(3)", "failed", "exit 3", {"exitCode": 3}, "failed"),
        ("run", "sys.exit(0)", "cancelled", "interrupted", {"exitCode": 0}, "interrupted"),
        ("run", "sys.exit(3)", "failed", "exit 3", {"exitCode": 3}, "failed"),
        ("run", "sys.exit(143)", "cancelled", "exit 143", {"exitCode": 143}, "interrupted"),
        ("run", "os.kill(os.getpid(), 9)", "cancelled", "killed by SIGKILL", {"signal": "SIGKILL"}, "interrupted"),
        ("run", "os.abort()", "failed", "killed by SIGABRT", {"signal": "SIGABRT"}, "failed"),
    ],
)
def test_open_turn_ends_as_the_process_does(
    name: str, end: str, state: str, words: str, stated: dict[str, Any], outcome: str, daemon: Running
) -> None:
    tooltap(name, "--socket", daemon.path, *agent(end))

    call, turn, session = ends(daemon)
    assert call["kind"] == "tool-result"
    known_by = "eof" if words == "interrupted" else "provider"
    assert turn == {"kind": "turn", "state": state, "reason": words, "endedBy": known_by}
    assert session == {"kind": "session", "state": "ended", **stated}
    assert status(daemon) == outcome


@pytest.mark.parametrize("answers", [(), ("--answers",)])
def test_agent_that_closes_its_output_first_was_not_stopped(answers: tuple[str, ...], daemon: Running) -> None:
    """Its output ends before its process does, as at every exit, but later than usual."""
    late = "os.close(1)\nsys.stdin.read()\nsys.exit(3)"
    with start("proxy", *answers, "--socket", daemon.path, *agent(late)) as proxy:
        while proxy.line():
            pass
        assert proxy.end()[0] == 3

    assert ends(daemon)[-1] == {"kind": "session", "state": "ended", "exitCode": 3}


def test_signal_that_came_through_the_tap_is_the_clients(daemon: Running) -> None:
    wait = "print('ready')\nsignal.pause()"
    with start("run", "--socket", daemon.path, *agent(wait), start_new_session=True) as run:
        while run.line() != b"ready\n":
            pass
        run.send_signal(signal.SIGTERM)
        assert run.end()[0] == -signal.SIGTERM

    assert ends(daemon)[1:] == [
        {"kind": "turn", "state": "cancelled", "reason": "killed by SIGTERM", "endedBy": "provider"},
        {"kind": "session", "state": "ended", "signal": "SIGTERM", "stoppedBy": "client"},
    ]


def test_killed_tap_states_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.serving() as daemon:
        with place.start(*agent("print('ready')\nsys.stdin.read()")) as run:
            while run.line() != b"ready\n":
                pass
            until(lambda: daemon.lines() == len(PROMPTED) + 1)
            run.kill()
        daemon.wait_until_ended(1, "suspended")

        assert [event for event in daemon.events() if event.get("state") not in ("started", None)] == []


def test_end_without_a_daemon_is_in_the_spool(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.run(*agent("sys.exit(3)"))
    with place.serving() as daemon:
        daemon.wait_until_ended(1)

        [ended] = [event for event in daemon.events() if event.get("state") == "ended"]
        assert (ended["kind"], ended["exitCode"]) == ("session", 3)


def test_show_says_how_the_process_ended(daemon: Running) -> None:
    tooltap("run", "--socket", daemon.path, *agent("sys.exit(3)"))
    shown = tooltap("show", "--socket", daemon.path, "s").stdout.decode()

    assert "── turn 1 · exit 3 · " in shown
    assert shown.splitlines()[-1] == "◉ Session ended: exit 3"
