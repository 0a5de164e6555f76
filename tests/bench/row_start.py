"""Start-up time: `tooltap --help`, and a daemon from its start to the log line that says it is listening.

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


Work: TypeAlias = Callable[[dict[str, str]], float]
"""Runs a process with additional environment variables, and returns the seconds until it has exited or is ready."""


class Spent(NamedTuple):
    seconds: float
    cpu_seconds: float


def measure(options: Options) -> list[Figure]:
    sides: dict[str, Work] = {
        "bare interpreter": _run("-c", "pass"),
        "tooltap --help": _run("-m", "tooltap.cli", "--help"),
        "daemon ready": _ready,
    }
    target = {"tooltap --help": {"target": 150.0}, "daemon ready": {"target": 500.0}}
    with tempfile.TemporaryDirectory() as compiled:
        environment = {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        timed = {name: partial(_spent, work, environment) for name, work in sides.items()}
        runs = alternate(timed, options.runs * (MORE_RUNS if options.scale >= 1 else 1))
    figures = []
    for name, spent in runs.items():
        figures.append(median(name, (1000 * one.seconds for one in spent), "ms", better="less", **target.get(name, {})))
        cpu = (1000 * one.cpu_seconds for one in spent)
        figures.append(median(f"{name}, processor time", cpu, "ms", better="less"))
    return figures


def _spent(work: Work, environment: dict[str, str]) -> Spent:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = work(environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _run(*arguments: str) -> Work:
    def run(environment: dict[str, str]) -> float:
        start = time.perf_counter()
        command = [sys.executable, *arguments]
        subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment}, check=True)
        return time.perf_counter() - start

    return run


def _ready(environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with DaemonProcess(Path(folder), journal=None, **environment) as daemon:
            daemon.wait_ready()
            return time.perf_counter() - start
