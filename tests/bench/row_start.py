"""Start-up time: of commands that have nothing to do, and of a daemon until the log line that says it is listening.

The baseline is a bare interpreter, `python -c pass`. Processor time shows what an idle machine would need. Modules are
compiled in advance, as by an installation: the first round, which is not counted, leaves them in a folder.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.bench.harness import Figure, Options, alternate, median
from tests.daemon.processes import DaemonProcess

__all__ = ["TITLE", "measure"]

TITLE = "start: milliseconds until a command has exited, or the daemon is ready"
MORE_RUNS = 3
"""Factor for the number of runs: a run is short, so other load affects it more."""

COMMANDS = {
    ("--help",): 0,
    ("run", "--", "true"): 0,
    ("tail", "--socket", "none"): 1,
    ("normalize",): 0,
    ("mcp",): 0,
}
"""Arguments -> exit code."""
TARGETS = {"tooltap --help": 150.0, "tooltap run -- true, processor time": 60.0, "daemon ready": 500.0}

Work: TypeAlias = Callable[[dict[str, str]], float]
"""Runs a process with additional environment variables, and returns the seconds until it has exited or is ready."""


class Spent(NamedTuple):
    seconds: float
    cpu_seconds: float


def measure(options: Options) -> list[Figure]:
    sides: dict[str, Work] = {
        "bare interpreter": _run("-c", "pass", code=0),
        **{
            f"tooltap {' '.join(arguments)}": _run("-m", "tooltap.cli", *arguments, code=code)
            for arguments, code in COMMANDS.items()
        },
        "daemon ready": _ready,
    }
    with tempfile.TemporaryDirectory() as compiled:
        environment = {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        timed = {name: partial(_spent, work, environment) for name, work in sides.items()}
        runs = alternate(timed, options.runs * (MORE_RUNS if options.scale >= 1 else 1))
    figures = []
    for name, spent in runs.items():
        times = {name: [one.seconds for one in spent], f"{name}, processor time": [one.cpu_seconds for one in spent]}
        for figure, seconds in times.items():
            figures.append(median(figure, (1000 * one for one in seconds), "ms", better="less", **_target(figure)))
    return figures


def _target(figure: str) -> dict[str, float]:
    return {"target": TARGETS[figure]} if figure in TARGETS else {}


def _spent(work: Work, environment: dict[str, str]) -> Spent:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = work(environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _run(*arguments: str, code: int) -> Work:
    """Run Python without input, to an end with this exit code."""

    def run(environment: dict[str, str]) -> float:
        start = time.perf_counter()
        command, null = [sys.executable, *arguments], subprocess.DEVNULL
        ended = subprocess.run(
            command, stdin=null, stdout=null, stderr=null, env={**os.environ, **environment}, check=False
        )
        assert ended.returncode == code
        return time.perf_counter() - start

    return run


def _ready(environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with DaemonProcess(Path(folder), journal=None, **environment) as daemon:
            daemon.wait_ready()
            return time.perf_counter() - start
