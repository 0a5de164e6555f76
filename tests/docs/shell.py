"""Runs the pages' shell blocks in a folder as the pages assume it: recordings, a daemon, and agents on the path that
print a recorded stream."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cli.command import CLAUDE, CODEX, DEMO, environment, serving
from tests.programs import found, of_script, require
from tests.test_layout import ROOT

TIMEOUT = 60


NOTHING = re.compile(
    r"^tooltap: (no (event has|call|session waits|permission was)|nothing found|events after \d+ are not|according"
    r" to (its|their) events,) .*\n",
    re.M,
)
"""Matches an error that is expected here: there is one session, which may not be indexed yet, and changed no
file."""
SPOOLED = re.compile(r"^tooltap: \d+ of \d+ lines wait in the spool: .*\n", re.M)
"""Matches what `run` and `proxy` remark if the daemon stands still when their agent ends, as on a busy machine."""


class Shell:
    """Runs the blocks of a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "tooltap.sock"

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def run(self, script: str, *, code: int = 0) -> str:
        """Run a script with Bash and return its output. Fails the test if the exit code is not `code`, and skips it if
        the script needs a program that is not installed."""
        require(*sorted(of_script(script)))
        return self.execute("bash", "-euo", "pipefail", "-c", script, code=code)

    def wait_for_the_trace(self) -> None:
        """Wait until the trace has everything that was published: it is written a moment after the events."""
        while not is_traced(self.run("tooltap stats --json")):
            pass

    def execute(self, *command: str, code: int = 0) -> str:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        variables = environment(PATH=path, HOME=str(self.folder), TOOLTAP_SOCKET=str(self.socket))
        finished = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        assert finished.returncode == code, f"{command[-1]}\n{finished.stderr}"
        assert "tooltap: " not in NOTHING.sub("", SPOOLED.sub("", finished.stderr)), finished.stderr
        while SPOOLED.search(finished.stderr) and self._is_in_a_spool():
            time.sleep(0.05)
        return finished.stdout

    def _is_in_a_spool(self) -> bool:
        """Whether lines for this daemon wait."""
        for path in Path(os.environ["TOOLTAP_SPOOL"]).glob("*.spool"):
            with suppress(FileNotFoundError):  # it was taken in
                if json.dumps(str(self.socket)).encode() in path.read_bytes():
                    return True
        return False


def is_traced(statistics: str) -> bool:
    """Whether a trace has all lines, and the marks of all ends. `statistics`: of its daemon, as JSON."""
    stats = json.loads(statistics)
    records: int = sum(one["lines"] for one in stats["perStream"]) + stats["streams"]["ended"]
    return bool(records) and stats["trace"]["records"] >= records


def write_program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


def agent_side(recording: Path) -> bytes:
    """Return what the agent printed in a two-way recording."""
    lines = [json.loads(line) for line in recording.read_bytes().splitlines()]
    return b"".join(json.dumps(line["line"]).encode() + b"\n" for line in lines if line["dir"] == "out")


@contextmanager
def shell(folder: Path, *, is_empty: bool = False) -> Iterator[Shell]:
    """A `Shell` beside a daemon that writes a trace. `is_empty`: its journal has no events yet."""
    shell = Shell(folder)
    shell.programs.mkdir()
    printed = {
        "claude": CLAUDE.read_bytes(),
        "codex": agent_side(CODEX),
        "gemini": agent_side(DEMO / "gemini.jsonl"),
        "opencode": agent_side(DEMO / "opencode.jsonl"),
        "my-acp-agent": agent_side(DEMO / "opencode.jsonl"),
    }
    for name, stream in printed.items():
        (folder / f"{name}.stream").write_bytes(stream)
        write_program(shell.programs / name, f"exec cat {shlex.quote(str(folder / name))}.stream")
    write_program(shell.programs / "tooltap", f'exec {shlex.quote(sys.executable)} -m tooltap.cli "$@"')
    write_program(shell.programs / "python", f'exec {shlex.quote(sys.executable)} -W error "$@"')
    if not found("socat"):
        shutil.copy(ROOT / "tests" / "bin" / "socat", shell.programs)
    (folder / "recordings").mkdir()
    shutil.copy(CLAUDE, folder / "recordings" / "claude.jsonl")
    shutil.copy(CODEX, folder / "recordings" / "codex.jsonl")
    (folder / "requests.jsonl").touch()
    (folder / "cli").symlink_to(ROOT / "cli")  # the pages name the recordings of `tooltap demo`
    tracing = {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_DIR": str(folder / "traces")}
    with serving(shell.socket, folder, **tracing):
        if not is_empty:
            shell.execute("tooltap", "ingest", str(CLAUDE))
        yield shell
