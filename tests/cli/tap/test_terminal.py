"""A tapped agent in a terminal still sees a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.cli.screen import Screen, started
from tests.cli.tap.test_run import agent, tapped
from tests.daemon import constants
from tests.daemon.running import TIMEOUT, Running


@contextmanager
def at_a_terminal(daemon: Running, program: str, *, size: tuple[int, int] = (24, 80)) -> Iterator[Screen]:
    env = environment()
    command = [sys.executable, "-m", constants.program(env), "run", "--socket", str(daemon.path), *agent(program)]
    command.remove("-u")  # Python decides itself whether to hold its output back
    with started(command, env, size=size) as screen:
        yield screen


def test_agent_gets_a_terminal_of_the_same_size(daemon: Running) -> None:
    program = "import os\nprint(os.isatty(0), os.isatty(1), os.isatty(2), *os.get_terminal_size(1))"
    with at_a_terminal(daemon, program, size=(40, 132)) as screen:
        assert screen.end() == 0

    assert screen.shown.startswith(b"True True True 132 40\r\n")
    assert tapped(daemon)[0]["bytes"] == len(b"True True True 132 40")


def test_terminal_output_is_not_buffered(daemon: Running) -> None:
    """Python, like most programs, buffers by line on a terminal, and by block otherwise."""
    with at_a_terminal(daemon, "import sys\nprint('first')\nsys.stdin.readline()") as screen:
        screen.until(b"first")
        screen.type(b"\n")

        assert screen.end() == 0


def test_resize_is_forwarded(daemon: Running) -> None:
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
        "print('ready')\n"
        "size = None\n"
        "while size != (100, 50):\n"
        "    signal.sigwait([signal.SIGWINCH])\n"
        "    size = os.get_terminal_size(1)\n"
        "print('size', *size)"
    )
    with at_a_terminal(daemon, program) as screen:
        screen.until(b"ready")
        screen.resize(50, 100)

        assert screen.end() == 0
    assert b"size 100 50" in screen.shown


def test_typed_interrupt_arrives_once(daemon: Running) -> None:
    program = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "print('ready')\n"
        "signal.sigwait([signal.SIGINT])\n"
        "print('interrupted')\n"
        "input()\n"
        "print('another:', len(signal.sigpending()))"
    )
    with at_a_terminal(daemon, program) as screen:
        screen.until(b"ready")
        screen.type(b"\x03")
        screen.until(b"interrupted")
        screen.type(b"\n")

        assert screen.end() == 0
    assert b"another: 0" in screen.shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_interrupt_that_is_not_typed_reaches_the_agent(number: signal.Signals, daemon: Running) -> None:
    """As from a process that started tooltap, and knows no other of its processes."""
    program = (
        "import signal, sys\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{number}])\n"
        "print('ready')\n"
        f"signal.sigwait([{number}])\n"
        "print('interrupted')\n"
        "input()\n"
        "print('another:', len(signal.sigpending()))\n"
        "sys.exit(3)"
    )
    with at_a_terminal(daemon, program) as screen:
        screen.until(b"ready")
        os.kill(screen.pid, number)
        screen.until(b"interrupted")
        screen.type(b"\n")

        assert screen.end() == 3
    assert b"another: 0" in screen.shown


def until_taken(pid: int, number: signal.Signals) -> None:
    """Wait until a process has taken a signal: while it has not, the kernel drops a second one."""
    deadline = time.monotonic() + TIMEOUT
    while int(re.findall(r"ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[0], 16) >> (number - 1) & 1:
        assert time.monotonic() < deadline
        os.sched_yield()


def test_both_interrupts_in_turn(daemon: Running) -> None:
    """A typed one comes from the terminal alone, a sent one from tooltap alone, in any order."""
    program = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "print('ready')\n"
        "for n in range(4):\n"
        "    info = signal.sigwaitinfo([signal.SIGINT])\n"
        "    print(n, 'typed' if info.si_code == 128 else 'sent')\n"
        "input()\n"
        "print('another:', len(signal.sigpending()))"
    )
    with at_a_terminal(daemon, program) as screen:
        screen.until(b"ready")
        for n, typed in enumerate([True, False, True, False]):
            screen.type(b"\x03") if typed else os.kill(screen.pid, signal.SIGINT)
            screen.until(b"%d typed" % n if typed else b"%d sent" % n)
            until_taken(screen.pid, signal.SIGINT)
        screen.type(b"\n")

        assert screen.end() == 0
    assert b"another: 0" in screen.shown


@pytest.mark.parametrize(("ending", "code"), [("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 9)", -9)])
def test_terminal_settings_are_restored(ending: str, code: int, daemon: Running) -> None:
    """Its last output is shown, and the modes of the terminal are those it left."""
    with at_a_terminal(daemon, f"import os\nprint('x' * 5_000)\n{ending}") as screen:
        before = screen.modes()

        assert screen.end() == code
        assert screen.modes() == before
    assert screen.shown.startswith(b"x" * 5_000 + b"\r\n")
