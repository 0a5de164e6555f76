"""What starting costs: `tooltap --help`, and a daemon from its call to its first log line that says it listens.

The yardstick is a bare interpreter, `python -c pass`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.harness import Figure, Options, alternate, median
from tests.daemon.processes import DaemonProcess

__all__ = ["TITLE", "measure"]

TITLE = "start: milliseconds until a command has ended, or the daemon is ready"
MANY = 3
"""More runs than of other rows: one takes little, and waits for whatever else the machine does."""


def measure(options: Options) -> list[Figure]:
    bare = [sys.executable, "-c", "pass"]
    sides: dict[str, Callable[[], float]] = {
        "bare interpreter": lambda: _run(bare),
        "tooltap --help": lambda: _run([sys.executable, "-m", "tooltap.cli", "--help"]),
        "daemon ready": _ready,
    }
    reach = {"tooltap --help": 150.0, "daemon ready": 500.0}
    runs = alternate(sides, options.runs * (MANY if options.scale >= 1 else 1))
    return [_figure(name, samples, reach.get(name)) for name, samples in runs.items()]


def _figure(name: str, seconds: list[float], reach: float | None) -> Figure:
    milliseconds = [1000 * one for one in seconds]
    return median(name, milliseconds, "ms", better="less", **({} if reach is None else {"reach": reach}))


def _run(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _ready() -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with DaemonProcess(Path(folder)) as daemon:
            daemon.wait_ready()
            return time.perf_counter() - start
