"""Overhead of `tooltap run -- true` over `true`: processor time, and time until it has exited.

Modules are compiled in advance, as by an installation: the first round, which is not counted, leaves them in a folder.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, median, program
from tests.daemon.processes import DaemonProcess

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "run: milliseconds of tooltap run -- true beyond those of true"
PROGRAM = True
TIMES = 5
"""Commands of one run."""
COMMAND = ("true",)


class Spent(NamedTuple):
    """Cost of one command in milliseconds."""

    time: float
    processor: float


def measure(options: Options) -> list[Figure]:
    times = max(1, round(TIMES * options.scale))
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **program(options.tree),
            "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
            "PYTHONDONTWRITEBYTECODE": "",
            "XDG_STATE_HOME": f"{folder}/state",
        }
        with DaemonProcess(Path(folder), **environment) as daemon:
            daemon.wait_ready()
            tapped = (sys.executable, "-m", "tooltap.cli", "run", "--socket")
            commands = {
                "true": COMMAND,
                "with a daemon": (*tapped, str(daemon.path), "--", *COMMAND),
                "without a daemon": (*tapped, f"{folder}/none.sock", "--", *COMMAND),
            }
            runs = alternate(
                {name: partial(_spent, command, environment, times) for name, command in commands.items()},
                max(options.runs, 2),  # the first round compiles
            )
    bare = runs.pop("true")[-options.runs :]
    results = []
    for name, spent in runs.items():
        pairs = list(zip(bare, spent[-options.runs :], strict=True))
        target = {"target": 60.0} if name == "with a daemon" else {}
        beyond = (one.processor - none.processor for none, one in pairs)
        results.append(median(name, beyond, "ms processor", better="less", **target))
        results.append(median(name, (one.time - none.time for none, one in pairs), "ms", better="less"))
    return results


def _spent(command: tuple[str, ...], environment: dict[str, str], times: int) -> Spent:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(1000 * (time.perf_counter() - start) / times, 1000 * processor / times)
