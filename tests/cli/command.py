"""Runs `tooltap` as a child process or, which is faster, in this process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.daemon.constants import program
from tooltap.cli.main import main

TIMEOUT = 60
COMMAND = [sys.executable, "-m", "tooltap.cli"]
DEMO = Path(__file__).parent.parent.parent / "cli" / "static" / "demo"
CLAUDE = DEMO / "claude-code.jsonl"
"""Lines as Claude Code printed them."""
CODEX = DEMO / "codex.jsonl"
"""Tapped lines of both directions."""


WITHOUT_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For a program whose files are limited: Python would keep half of a compiled module, and not start again."""


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of the tests, without variables that affect the commands."""
    dropped = ("TOOLTAP_SOCKET", "NO_COLOR", "TOOLTAP_TRACE", "HAPPIER_STACK_TOOL_TRACE")
    return {name: value for name, value in os.environ.items() if name not in dropped} | changes


def tooltap(*arguments: object, stdin: bytes = b"", **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end. `changes`: environment variables."""
    env = environment(**changes)
    command = [sys.executable, "-m", program(env), *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT, env=env, check=False)


def here(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the whole command in this process, from `sys.argv` to the exit code."""
    command = ["tooltap", *map(str, arguments)]
    with tempfile.TemporaryFile() as given, open(os.dup(0), "rb") as usual_input:
        given.write(stdin)
        given.seek(0)
        os.dup2(given.fileno(), 0)
        output, errors = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        try:
            with mock.patch.multiple(sys, argv=command, stdout=output, stderr=errors), pytest.raises(SystemExit) as end:
                main()
        finally:
            os.dup2(usual_input.fileno(), 0)
    assert isinstance(end.value.code, int)
    written = (stream.buffer.getvalue() for stream in (output, errors))
    return subprocess.CompletedProcess(command, end.value.code, *written)


class Child:
    """A running command with unbuffered pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self) -> bytes:
        """Read the next line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def log_line(self) -> bytes:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def leave(self) -> None:
        """Close the pipe that reads its output."""
        assert self.process.stdout is not None
        self.process.stdout.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)

    def end(self) -> tuple[int, bytes, bytes]:
        """Close its input, wait for its end, and return exit code, remaining output and standard error."""
        output, errors = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, output, errors


@contextmanager
def start(
    *arguments: object, env: dict[str, str] | None = None, within: Sequence[str] = (), **options: Any
) -> Iterator[Child]:
    """Start a command with all three streams piped unless `options` say otherwise. It is killed at the end. `within`:
    the command that runs it."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    env = env or environment()
    command = [*within, sys.executable, "-m", program(env), *map(str, arguments)]
    with subprocess.Popen(command, env=env, **{**streams, **options}) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


@contextmanager
def serving(socket: Path, folder: Path, *options: object, **changes: str) -> Iterator[Child]:
    """Start `tooltap serve` and wait until it is ready. `changes`: environment variables."""
    arguments = ["serve", "--socket", socket, "--journal", f"sqlite:{folder / 'journal.db'}", *options]
    with start(*arguments, env=environment(**changes)) as daemon:
        while b"listening" not in (line := daemon.log_line()):
            assert line, "the daemon has ended"
        yield daemon


def sentence(finished: subprocess.CompletedProcess[bytes]) -> str:
    """Return the error message, which must be one line without a traceback."""
    text = finished.stderr.decode()
    assert text.startswith("tooltap: "), text
    assert text.count("\n") == 1, text
    return text.removeprefix("tooltap: ").rstrip("\n")
