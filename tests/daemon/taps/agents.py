"""Agents for tests: programs that print a recording and write the session file of the same session, step by step."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple, Self

from tests.cli.command import COMMAND, environment
from tests.daemon.taps.following import FIXTURES, Follower, lines_of

SCRIPT = """#!/usr/bin/env python3
import datetime, re, sys
printed, kept, path = (open(one, "rb").readlines() if number < 2 else one for number, one in enumerate({arguments!r}))

def now(found):
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()

def tell(step):
    sys.stderr.write(step)
    sys.stderr.flush()

for step in sys.stdin:
    what, first, last = step.split()
    for line in (printed if what == "print" else kept)[int(first):int(last)]:
        if what == "print":
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
        else:
            with open(path, "ab") as file:
                file.write({stamped})
    tell(step)
"""
STAMPED = r"""re.sub(rb'(?<="timestamp":")\d{4}-\d\d-\d\dT[\d:.]+Z', now, line)"""


class Recorded(NamedTuple):
    """One session of an agent: what it printed, and the file it wrote."""

    agent: str
    arguments: tuple[str, ...]
    printed: Path
    kept: Path
    folder: str
    """Name of the attribute of `Follower` with the folder of the file."""
    name: str


def _recorded(agent: str, arguments: str, printed: str, kept: str, folder: str, name: str) -> Recorded:
    return Recorded(agent, tuple(arguments.split()), FIXTURES / printed, FIXTURES / kept, folder, name)


RECORDED = (
    _recorded(
        "claude",
        "-p --output-format stream-json --verbose",
        "claude-stream/claude-code-2.1.330/shell-fails.jsonl",
        "claude-transcript/claude-code-2.1.330/shell-fails.jsonl",
        "projects",
        "3e15402d-3a5d-4fe2-84cb-c898c524f4f9.jsonl",
    ),
    _recorded(
        "codex",
        "exec --json",
        "codex-exec/codex-0.169/patch.jsonl",
        "codex-rollout/codex-0.169/patch.jsonl",
        "rollouts",
        "rollout-2026-11-21T20-44-03-01a1ffd9.jsonl",
    ),
    _recorded(
        "gemini",
        "-p hello --output-format stream-json",
        "gemini-stream/gemini-0.61.0/shell-fails.jsonl",
        "gemini-chat/gemini-0.61.0/shell-fails.jsonl",
        "chats",
        "session-2026-11-21T20-45-f2790586.jsonl",
    ),
)


class Agent:
    """An agent that runs under `tooltap run`, and does one step at a time. `is_stamped`: whether the lines of its file
    get the time at which they are written; else they keep those of the recording."""

    def __init__(self, directory: Path, follower: Follower, recorded: Recorded, *, is_stamped: bool = True) -> None:
        self.file: Path = getattr(follower, recorded.folder) / recorded.name
        self.printed = len(lines_of(recorded.printed))
        self.kept = len(lines_of(recorded.kept))
        program = directory / "bin" / recorded.agent
        program.parent.mkdir(exist_ok=True)
        arguments = [str(recorded.printed), str(recorded.kept), str(self.file)]
        program.write_text(SCRIPT.format(arguments=arguments, stamped=STAMPED if is_stamped else "line"))
        program.chmod(0o755)
        self._command = [*COMMAND, "run", "--socket", follower.settings["socket"], "--", str(program)]
        self._command += recorded.arguments
        self._environment = environment(TOOLTAP_SPOOL=follower.environment["TOOLTAP_SPOOL"])
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def print(self, first: int = 0, last: int | None = None) -> None:
        """Print lines of the recording. Returns when they are printed."""
        self._step("print", first, self.printed if last is None else last)

    def keep(self, first: int = 0, last: int | None = None) -> None:
        """Append lines of the recording to the session file."""
        self._step("keep", first, self.kept if last is None else last)

    def end(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        self._process.communicate()
        return self._process.returncode

    def _step(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        step = (" ".join(map(str, words)) + "\n").encode()
        os.write(self._process.stdin.fileno(), step)
        assert self._process.stderr.readline() == step
