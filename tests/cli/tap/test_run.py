"""`tooltap run`: the agent is not disturbed, and the daemon gets its output."""

from __future__ import annotations

import json
import os
import signal
import socket as sockets
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, here, sentence, serving, start, tooltap
from tests.daemon.constants import VARIABLE
from tests.daemon.running import Running, running
from tests.daemon.taps.following import FIXTURES

LINE = b'{"type":"nonsense"}\n'
GEMINI = FIXTURES / "gemini-stream" / "gemini-0.61.0" / "read.jsonl"
KILO = FIXTURES / "opencode-run" / "kilo-7.7.9" / "shell.jsonl"


def agent(program: str) -> list[str]:
    """The command line of a Python program that plays the agent."""
    return ["--", sys.executable, "-u", "-c", program]


def tapped(daemon: Running) -> list[dict[str, Any]]:
    """The statistics of all streams, oldest first."""
    streams: list[dict[str, Any]] = daemon.stats()["perStream"]
    return streams[::-1]


def test_output_passes_unchanged_and_arrives_at_the_daemon(daemon: Running) -> None:
    finished = tooltap("run", "--socket", daemon.path, "--", "cat", CLAUDE)

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert finished.stdout == CLAUDE.read_bytes()
    [stream] = tapped(daemon)
    assert stream["stream"].startswith("run-")
    assert (stream["dialect"], stream["lines"], stream["state"]) == ("claude-stream", 5, "ended")
    with daemon.subscribe(after="start", follow=False) as wire:
        events = [event for event in wire.rest() if "kind" in event]
    assert [event["name"] for event in events if event["kind"] == "tool-call"] == ["Bash"]


def test_binary_output_passes_unchanged(daemon: Running) -> None:
    data = bytes(range(256)) * 2_000 + b"unterminated"
    finished = tooltap("run", "--socket", daemon.path, "--", "cat", stdin=data)

    assert finished.stdout == data
    assert tapped(daemon)[0]["lines"] == 2_001


def test_length_and_nesting_of_a_line_are_bounded(tmp_path: Path) -> None:
    """Each line passes unchanged; one that is beyond a bound of the daemon is named, and costs only itself."""

    def line(length: int, depth: int) -> bytes:
        nested = "[" * (depth - 1) + "]" * (depth - 1)
        begun = f'{{"type":"nonsense","nested":{nested or 0},"text":"'
        return f'{begun}{"x" * (length - len(begun) - 2)}"}}\n'.encode()

    lines = line(1_000, 1) + line(1_001, 1) + line(1_000, 20) + line(200, 21) + line(1_000, 20)
    with running(tmp_path, stream={"line_bytes": 1_000, "depth": 20}) as daemon:
        passed = tooltap("run", "--socket", daemon.path, "--dialect", "claude-stream", "--", "cat", stdin=lines)
        read = here("tail", "--socket", daemon.path, "--no-follow", "--after", "start", "--mode", "json")

    assert (passed.returncode, passed.stdout) == (0, lines)
    events = [json.loads(one) for one in read.stdout.splitlines()]
    assert [(one["line"], one["reason"], one["bytes"]) for one in events if one["kind"] == "unparsed"] == [
        (1, "unknown-type", 1_000),
        (2, "too-long", 1_001),
        (3, "unknown-type", 1_000),
        (4, "too-deep", 200),
        (5, "unknown-type", 1_000),
    ]


def test_stream_options_reach_the_daemon(daemon: Running) -> None:
    options = ["--dialect", "claude-stream", "--provider", "my-fork", "--session", "monday"]
    tooltap("run", "--socket", daemon.path, *options, "--", "echo", LINE.decode().strip())
    with daemon.subscribe(after="start", follow=False) as wire:
        [event] = [event for event in wire.rest() if "kind" in event]

    assert (event["provider"], event["session"], event["reason"]) == ("my-fork", "monday", "unknown-type")


def test_fork_of_an_agent_keeps_its_name(daemon: Running, tmp_path: Path) -> None:
    """The lines of Kilo Code are those of OpenCode, and do not say whose they are."""
    kilo = tmp_path / "kilo"
    kilo.write_text('#!/bin/sh\ncat "$0.jsonl"\n')
    kilo.chmod(0o755)
    (tmp_path / "kilo.jsonl").write_bytes(KILO.read_bytes())
    tooltap("run", "--socket", daemon.path, "--", kilo, "run", "--format", "json", "Hi")
    with daemon.subscribe(after="start", follow=False) as wire:
        events = [event for event in wire.rest() if "kind" in event]

    assert {(event["provider"], event["dialect"]) for event in events} == {("kilo", "opencode-run")}


def test_session_has_the_folder_of_the_agent_where_its_stream_states_none(daemon: Running, tmp_path: Path) -> None:
    """Gemini CLI states no folder."""
    (tmp_path / "shop" / ".git" / "objects").mkdir(parents=True)
    (tmp_path / "shop" / ".git" / "HEAD").touch()
    (tmp_path / "shop" / "src").mkdir()
    (tmp_path / "gemini").write_text(f"#!/bin/sh\ncat '{GEMINI}'\n")
    (tmp_path / "gemini").chmod(0o755)
    command = [tmp_path / "gemini", "-p", "Read it", "--output-format", "stream-json"]
    with start("run", "--socket", daemon.path, "--", *command, cwd=tmp_path / "shop" / "src") as child:
        child.end()
    with daemon.connect() as wire:
        [session] = wire.ask("sessions")["sessions"]

    assert (session["cwd"], session["project"]) == (str(tmp_path / "shop" / "src"), str(tmp_path / "shop"))


def test_folder_that_a_stream_states_is_the_session_s(daemon: Running) -> None:
    tooltap("run", "--socket", daemon.path, "--", "cat", CLAUDE)
    with daemon.connect() as wire:
        [session] = wire.ask("sessions")["sessions"]

    assert session["cwd"] == json.loads(CLAUDE.read_bytes().splitlines()[0])["cwd"] != os.getcwd()


def test_output_is_not_buffered(daemon: Running) -> None:
    """Each line arrives before the agent continues."""
    program = "import sys\nfor line in sys.stdin: print(line.upper(), end='')"
    with start("run", "--socket", daemon.path, *agent(program)) as run:
        run.write(b"one\n")
        assert run.line() == b"ONE\n"
        run.write(b"two\n")
        assert run.line() == b"TWO\n"

        assert run.end()[:2] == (0, b"")


def test_partial_line_is_not_buffered(daemon: Running) -> None:
    program = "import os\nwhile data := os.read(0, 1): os.write(1, data.upper())"
    with start("run", "--socket", daemon.path, *agent(program)) as run:
        assert run.process.stdout is not None
        for letter in (b"a", b"b", b"\n"):
            run.write(letter)
            assert run.process.stdout.read(1) == letter.upper()

        assert run.end()[:2] == (0, b"")


@pytest.mark.parametrize("name", ["run", "proxy"])
def test_unknown_option_is_not_taken_for_the_agent(name: str) -> None:
    finished = here(name, "--stream", "x", "--", "echo", "started")

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert sentence(finished).startswith("No such option '--stream'")


@pytest.mark.parametrize("options", [(), ("--mcp-server", "docs")])
def test_options_after_the_agent_are_the_agents(options: tuple[str, ...], daemon: Running) -> None:
    """Also where click reads the command line."""
    finished = tooltap("run", "--socket", daemon.path, *options, "echo", "--stream", "x")

    assert (finished.returncode, finished.stdout) == (0, b"--stream x\n")


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9), ("import os; os.abort()", -6)],
)
def test_exit_code_is_the_agents(program: str, code: int, daemon: Running) -> None:
    finished = tooltap("run", "--socket", daemon.path, *agent(program))

    assert (finished.returncode, finished.stdout, finished.stderr) == (code, b"", b"")


def test_unknown_command_is_exit_127(daemon: Running, tmp_path: Path) -> None:
    finished = tooltap("run", "--socket", daemon.path, "--", tmp_path / "none")

    assert finished.returncode == 127
    assert sentence(finished) == f"cannot start {tmp_path / 'none'}: No such file or directory"
    assert tapped(daemon) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_forwarded(number: signal.Signals, daemon: Running) -> None:
    """The agent receives the signal, prints it, and chooses its own exit code."""
    program = (
        "import signal, sys\n"
        "signal.signal(int(sys.argv[1]), lambda n, _: (print(n), sys.exit(3)))\n"
        "print('ready')\n"
        "while True: signal.pause()"
    )
    with start("run", "--socket", daemon.path, *agent(program), number.value, start_new_session=True) as run:
        assert run.line() == b"ready\n"
        run.send_signal(number)

        assert run.end()[:2] == (3, b"%d\n" % number.value)


def test_closed_reader_ends_the_agent(daemon: Running) -> None:
    """The agent dies of SIGPIPE, as in `agent | head -1`."""
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "print('first')\n"
        "sys.stdin.read(1)\n"
        "while True: print('more')"
    )
    with start("run", "--socket", daemon.path, *agent(program)) as run:
        assert run.line() == b"first\n"
        run.leave()
        run.write(b"x")

        assert run.end()[:2] == (-signal.SIGPIPE, b"")


def test_orphaned_child_can_continue_printing(daemon: Running) -> None:
    reading, writing = os.pipe()
    script = f'echo first; (read line; echo "$line") <&{reading} & exit 4'
    with start("run", "--socket", daemon.path, "--", "bash", "-c", script, pass_fds=[reading]) as run:
        os.close(reading)
        assert run.process.wait(60) == 4
        os.write(writing, b"second\n")
        os.close(writing)

        assert run.end()[:2] == (4, b"first\nsecond\n")


# -- whatever the daemon does ---------------------------------------------------------------------------------------


def test_without_daemon_the_spool_is_reported(tmp_path: Path) -> None:
    finished = tooltap("run", "--socket", tmp_path / "none.sock", "--", "cat", CLAUDE)

    assert (finished.returncode, finished.stdout) == (0, CLAUDE.read_bytes())
    assert sentence(finished) == (
        f"5 of 5 lines wait in the spool: no daemon is listening at {tmp_path / 'none.sock'};"
        " start one with `tooltap up`"
    )


def test_unknown_dialect_is_reported_at_the_end(daemon: Running) -> None:
    finished = tooltap("run", "--socket", daemon.path, "--dialect", "klingon", "--", "cat", CLAUDE)

    assert (finished.returncode, finished.stdout) == (0, CLAUDE.read_bytes())
    assert "5 of 5 lines wait in the spool: there is no dialect 'klingon'" in sentence(finished)


def test_stuck_daemon_does_not_delay_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon accepts the connection and never reads; the agent prints 8 MB, more than a socket holds."""
    monkeypatch.delenv(VARIABLE)  # it is waited for in vain
    path = tmp_path / "stuck.sock"
    with sockets.socket(sockets.AF_UNIX) as stuck:
        stuck.bind(str(path))
        stuck.listen()
        line = b"x" * 99 + b"\n"
        finished = tooltap("run", "--socket", path, *agent("print(('x' * 99 + chr(10)) * 80_000, end='')"))

    assert (finished.returncode, finished.stdout) == (0, line * 80_000)
    assert sentence(finished).startswith("80000 of 80000 lines wait in the spool: ")


def test_restarted_daemon_gets_everything_once(tmp_path: Path) -> None:
    """The agent prints before the daemon is killed with `kill -9`, while it is away, and after its restart."""
    socket = tmp_path / "s.sock"
    echo = agent("import sys\nfor line in sys.stdin: print(line, end='')")

    def print_lines(numbers: range) -> None:
        for n in numbers:
            run.write(b'{"n":%d}\n' % n)
            assert run.line() == b'{"n":%d}\n' % n

    def arrived(count: int) -> list[int]:
        return [json.loads(json.loads(tail.line())["text"])["n"] for _ in range(count)]

    with start("run", "--socket", socket, *echo) as run, ExitStack() as stack:
        with serving(socket, tmp_path) as daemon:
            print_lines(range(100))
            tail = stack.enter_context(start("tail", "--socket", socket, "--mode", "json", "--after", "start"))
            assert arrived(100) == list(range(100))
            daemon.kill()
        print_lines(range(100, 200))
        with serving(socket, tmp_path):
            assert arrived(100) == list(range(100, 200))
            print_lines(range(200, 250))
            assert run.end()[:2] == (0, b"")
            assert arrived(50) == list(range(200, 250))


# -- agents that print a stream only with certain flags --------------------------------------------------------------


def test_interactive_agent_is_not_tapped_and_flags_are_named(daemon: Running, tmp_path: Path) -> None:
    claude = tmp_path / "claude"
    claude.write_text('#!/bin/sh\necho "args: $*"; exit 5\n')
    claude.chmod(0o755)
    finished = tooltap("run", "--socket", daemon.path, "--", claude, "--model", "opus")

    assert (finished.returncode, finished.stdout) == (5, b"args: --model opus\n")
    assert sentence(finished) == (
        f"not tapped: {claude} prints no event stream with these arguments;"
        " add -p --output-format stream-json --verbose"
    )
    assert tapped(daemon) == []
