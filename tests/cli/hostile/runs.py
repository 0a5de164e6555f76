"""Runs commands in this process, into a pipe and on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

import pytest

from tests.cli.command import COMMAND, environment, here, tooltap
from tests.cli.screen import started
from tooltap.cli.main import main

__all__ = ["Shown", "into_a_pipe", "on_a_terminal"]


class Shown(NamedTuple):
    code: int
    output: bytes
    errors: bytes


LOG = ("attach", "serve")
"""Commands that log. Logging is set up once per process, so they run in a process of their own."""


def into_a_pipe(*arguments: object) -> Shown:
    finished = (tooltap if _logs(*arguments) else here)(*arguments)
    return Shown(finished.returncode, finished.stdout, finished.stderr)


def on_a_terminal(*arguments: object, columns: int = 100) -> Shown:
    """Run a command with standard output and error on two pseudo-terminals, so that they can be told apart."""
    if _logs(*arguments):
        with started([*COMMAND, *map(str, arguments)], environment()) as screen:
            code = screen.end()
        return Shown(code, b"", screen.shown.replace(b"\r\n", b"\n"))
    with _terminal(columns) as (output, shown), _terminal(columns) as (errors, told):
        streams = mock.patch.multiple(
            sys, argv=["tooltap", *map(str, arguments)], stdout=output, stderr=errors, stdin=io.StringIO()
        )
        with streams, pytest.raises(SystemExit) as end:
            main()
    assert isinstance(end.value.code, int)
    return Shown(end.value.code, bytes(shown), bytes(told))


def _logs(command: object = None, word: object = "", *_: object) -> bool:
    """Whether the command is one of `LOG`, rather than one about a running daemon, such as `serve status`."""
    return command in LOG and (command != "serve" or str(word).startswith("-"))


@contextmanager
def _terminal(columns: int) -> Iterator[tuple[io.TextIOWrapper, bytearray]]:
    """Open a stream on a pseudo-terminal; yields it, and the bytes that were written to it, complete after the
    block."""
    reading, writing = pty.openpty()
    modes = termios.tcgetattr(writing)
    modes[1] &= ~termios.OPOST  # the bytes as they were written
    termios.tcsetattr(writing, termios.TCSANOW, modes)
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
    shown = bytearray()

    def read() -> None:
        try:
            while data := os.read(reading, 65_536):
                shown.extend(data)
        except OSError:  # on Linux: the other side is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with io.TextIOWrapper(io.BufferedWriter(io.FileIO(writing, "w")), "utf-8", line_buffering=True) as stream:
            yield stream, shown
    finally:
        reader.join()
        os.close(reading)
