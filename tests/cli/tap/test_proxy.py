"""`tooltap proxy`: both directions pass unchanged and independently, and the daemon gets all lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CODEX, DEMO, here, sentence, start, tooltap
from tests.cli.tap.spooling import Place
from tests.cli.tap.test_run import agent, tapped
from tests.daemon.running import Running
from tooltap.daemon.taps.delivery.spool import unframe

MIB = 1024 * 1024

REPLAY = """
import json, sys
for record in open(sys.argv[1]):
    record = json.loads(record)
    if record["dir"] == "in":
        assert json.loads(sys.stdin.readline()) == record["line"]
    else:
        print(json.dumps(record["line"]), flush=True)
assert sys.stdin.read() == ""
"""
"""An agent that replays its lines of a two-way recording after receiving the client's."""


@pytest.mark.parametrize(("session", "dialect"), [(CODEX, "codex-mcp"), (DEMO / "opencode.jsonl", "acp")])
def test_session_gives_the_events_of_its_recording(
    session: Path, dialect: str, daemon: Running, tmp_path: Path
) -> None:
    records = [json.loads(line) for line in session.read_bytes().splitlines()]
    with start("proxy", "--socket", daemon.path, *agent(REPLAY), session) as proxy:
        for record in records:
            if record["dir"] == "in":
                proxy.write(json.dumps(record["line"]).encode() + b"\n")
            else:
                assert json.loads(proxy.line()) == record["line"]
        assert proxy.end()[:2] == (0, b"")
    with daemon.subscribe(after="start", follow=False) as wire:
        events = [event for event in wire.rest() if "kind" in event]
    recording = shutil.copy(session, tmp_path / "the-recording.jsonl")
    recorded = [json.loads(line) for line in here("normalize", recording).stdout.splitlines()]

    *told, ended = events
    assert [without_names(event) for event in told] == [without_names(event) for event in recorded]
    assert (ended["kind"], ended["state"], ended["exitCode"]) == ("session", "ended", 0)
    [stream] = tapped(daemon)
    assert stream["stream"].startswith("proxy-")
    assert (stream["dialect"], stream["lines"], stream["state"]) == (dialect, len(records), "ended")


def without_names(event: dict[str, Any]) -> dict[str, Any]:
    """Remove what depends on the stream's name, the journal and the clock."""
    kept = {
        key: value for key, value in event.items() if key not in ("seq", "ts", "stream", "id", "durationMs", "waitMs")
    }
    unnamed: dict[str, Any] = json.loads(json.dumps(kept).replace(event["stream"], "…"))
    return unnamed


def test_bytes_pass_unchanged_both_ways(daemon: Running) -> None:
    data = bytes(range(256)) * 300 + b"unterminated"
    finished = tooltap("proxy", "--socket", daemon.path, "--", "cat", stdin=data)

    assert (finished.returncode, finished.stdout) == (0, data)
    assert tapped(daemon)[0]["lines"] == 2 * 301


def test_partial_lines_pass_at_once_both_ways(daemon: Running) -> None:
    program = "import os\nwhile data := os.read(0, 1): os.write(1, data.upper())"
    with start("proxy", "--socket", daemon.path, *agent(program)) as proxy:
        assert proxy.process.stdout is not None
        for letter in (b"a", b"b", b"\n"):
            proxy.write(letter)
            assert proxy.process.stdout.read(1) == letter.upper()

        assert proxy.end()[:2] == (0, b"")


def test_lines_keep_order_and_direction(tmp_path: Path) -> None:
    """Every response triggers the next request, so the order of the lines is fixed."""
    place = Place(tmp_path)
    program = "import sys\nfor line in sys.stdin: print('answer to', line, end='')"
    with place.start(*agent(program), command="proxy") as proxy:
        for number in range(200):
            proxy.write(b"%d\n" % number)
            assert proxy.line() == b"answer to %d\n" % number
        proxy.end()
    [spool] = place.spools
    pieces = spool.read_bytes().splitlines(keepends=True)
    records = [json.loads(record.data) for piece in pieces if (record := unframe(piece)) is not None]

    assert [(one["dir"], one["line"]) for one in records] == [
        line for number in range(200) for line in (("in", str(number)), ("out", f"answer to {number}"))
    ]


def test_directions_are_independent(daemon: Running) -> None:
    """The agent prints 2 MB before it reads on, which is more than pipes hold."""
    program = "import sys\nread = sys.stdin.buffer.read(2_000_000)\nsys.stdout.buffer.write(read)\nsys.stdin.read()"
    with start("proxy", "--socket", daemon.path, *agent(program)) as proxy:
        lines = (b"x" * 99_999 + b"\n") * 20
        proxy.write(lines)
        writing = threading.Thread(target=proxy.write, args=(lines,))
        writing.start()
        assert proxy.process.stdout is not None
        left = 2_000_000
        while left:
            left -= len(proxy.process.stdout.read(min(left, MIB)))
        writing.join(60)
        assert not writing.is_alive()

        assert proxy.end()[:2] == (0, b"")


def test_agent_that_closed_its_input_can_print(daemon: Running) -> None:
    """The client gets a broken pipe, as without the proxy."""
    program = "import os, sys\nos.close(0)\nprint('closed')\nos.read(int(sys.argv[1]), 1)\nprint('end')"
    reading, writing = os.pipe()
    with start("proxy", "--socket", daemon.path, *agent(program), reading, pass_fds=[reading]) as proxy:
        assert proxy.line() == b"closed\n"
        proxy.write(b"x" * 10 * MIB)  # as much as the pipe takes
        with pytest.raises(BrokenPipeError):
            proxy.write(b"x")
        os.write(writing, b"x")
        assert proxy.line() == b"end\n"
        assert proxy.process.wait(60) == 0
    os.close(reading)
    os.close(writing)


def test_agent_that_closed_its_output_gets_input(daemon: Running) -> None:
    """The client sees the end of the output at once."""
    program = "import os, sys\nprint('last')\nos.close(1)\nsys.exit(len(sys.stdin.read()))"
    with start("proxy", "--socket", daemon.path, *agent(program)) as proxy:
        assert proxy.line() == b"last\n"
        assert proxy.line() == b""
        proxy.write(b"12345")
        proxy.process.stdin.close()  # type: ignore[union-attr]

        assert proxy.process.wait(60) == 5


@pytest.mark.parametrize(("program", "code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_exit_code_is_the_agents_while_the_client_writes(program: str, code: int, daemon: Running) -> None:
    with start("proxy", "--socket", daemon.path, *agent(program)) as proxy:
        assert proxy.process.wait(60) == code


def test_signals_are_forwarded(daemon: Running) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print('ready')\n"
        "while True: signal.pause()"
    )
    with start("proxy", "--socket", daemon.path, *agent(program)) as proxy:
        assert proxy.line() == b"ready\n"
        proxy.send_signal(signal.SIGTERM)

        assert proxy.process.wait(60) == 3


def test_unknown_command_is_exit_127(tmp_path: Path) -> None:
    finished = tooltap("proxy", "--socket", tmp_path / "none.sock", "--", tmp_path / "none")

    assert finished.returncode == 127
    assert sentence(finished) == f"cannot start {tmp_path / 'none'}: No such file or directory"


def test_agent_is_tapped_without_daemon(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.start("--", sys.executable, "-c", "print(input())", command="proxy") as proxy:
        proxy.write(b'{"n":1}\n')
        assert proxy.line() == b'{"n":1}\n'
        code, _, errors = proxy.end()
    assert code == 0
    assert errors.startswith(b"tooltap: 2 of 2 lines wait in the spool: no daemon is listening")
    with place.serving() as daemon:
        daemon.wait_until_ended(1)
        assert list(daemon.journal().values()) == [[1, 1]]
