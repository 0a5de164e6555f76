"""Runs `tooltap` as a child process, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT = 60
COMMAND = [sys.executable, "-m", "tooltap.cli"]
DEMO = Path(__file__).parent.parent.parent / "cli" / "static" / "demo"
CLAUDE = DEMO / "claude-code.jsonl"
"""Lines as Claude Code printed them."""
CODEX = DEMO / "codex.jsonl"
"""Tapped lines, both directions."""


def environment(**changes: str) -> dict[str, str]:
    """Ours, without what would change the commands."""
    dropped = ("TOOLTAP_SOCKET", "NO_COLOR", "HAPPIER_STACK_TOOL_TRACE")
    return {name: value for name, value in os.environ.items() if name not in dropped} | changes


def tooltap(*arguments: object, stdin: bytes = b"", **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run to the end. `changes`: of the environment."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, timeout=TIMEOUT, env=environment(**changes), check=False
    )


@contextmanager
def start(*arguments: object, env: dict[str, str] | None = None, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A running command, with all three streams piped unless `options` say otherwise; killed in the end."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)], env=env or environment(), **{**streams, **options}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Wait for the end: exit code and what went to standard error."""
    _, errors = process.communicate(timeout=TIMEOUT)
    return process.returncode, errors


def sentence(finished: subprocess.CompletedProcess[bytes]) -> str:
    """What went wrong, which must be one line without a traceback."""
    text = finished.stderr.decode()
    assert text.startswith("tooltap: "), text
    assert text.count("\n") == 1, text
    return text.removeprefix("tooltap: ").rstrip("\n")
