"""The latency of a line: from before it is written to the daemon until a subscriber has its event, at 1,000 lines a
second.

The baseline is a bare asyncio server that relays what it reads to the same readers. Each line carries the time at which
it was written; the first ones, which warm up the daemon, carry none.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.harness import Figure, Options, alternate, median
from tests.bench.processes.children import Child
from tests.bench.processes.load import TEXT, message_line, open_stream
from tests.bench.processes.readers import readers
from tests.daemon.constants import VARIABLE
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire

__all__ = ["TITLE", "measure"]

TITLE = "latency: milliseconds from a line to its event, at 1,000 lines a second"
PERIOD = 0.001
LINES = 3_000
WARM_UP = 200
"""First lines, which are not timed."""
PATIENT = '{"shutdown_timeout": 60.0}'
"""Constants of the daemon, which ends when the readers have everything."""
PERCENTILES = {1: {50: 3.0, 99: None}, 100: {50: None, 99: 20.0}}
"""Subscribers -> percentile -> target."""


def measure(options: Options) -> list[Figure]:
    lines = max(10, round(LINES * options.scale))
    figures = []
    for subscribers, percentiles in PERCENTILES.items():
        sides = {side.__name__: partial(side, subscribers, lines) for side in (bare, daemon)}
        runs = alternate(sides, options.runs)
        for percentile, target in percentiles.items():
            for side, samples in runs.items():
                name = f"subscribers {subscribers}, p{percentile}{', bare' if side == 'bare' else ''}"
                goal = {"target": target} if side == "daemon" and target is not None else {}
                figures.append(median(name, (_at(one, percentile) for one in samples), "ms", better="less", **goal))
    return figures


def daemon(subscribers: int, lines: int) -> list[int]:
    """The latencies in nanoseconds, sorted."""
    with (
        tempfile.TemporaryDirectory() as folder,
        DaemonProcess(Path(folder), **{VARIABLE: PATIENT}).wait_ready() as process,
        readers(process.path, subscribers, frame={"op": "subscribe"}, stamps=True) as reading,
    ):
        with open_stream(process, "s") as wire:
            _write(wire, lines)
            wire.finish()
            wire.until("done")
        process.process.terminate()
        return _checked(reading, subscribers, lines)


def bare(subscribers: int, lines: int) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.sock"
        with Child("servers", "relay", path, subscribers), readers(path, subscribers, stamps=True) as reading:
            with Wire(path) as wire:
                _write(wire, lines)
                wire.finish()
                wire.line()
            return _checked(reading, subscribers, lines)


def _write(wire: Wire, lines: int) -> None:
    due = time.perf_counter()
    for number in range(WARM_UP + lines):
        time.sleep(max(0.0, due - time.perf_counter()))
        stamp = f"@{time.monotonic_ns()}@ " if number >= WARM_UP else ""
        wire.write(message_line(number, stamp + TEXT))
        due += PERIOD


def _checked(reading: Child, subscribers: int, lines: int) -> list[int]:
    _, nanoseconds = reading.result()
    assert len(nanoseconds) == subscribers * lines, f"{len(nanoseconds)} of {subscribers * lines} events were seen"
    return sorted(nanoseconds)


def _at(nanoseconds: list[int], percentile: int) -> float:
    return nanoseconds[len(nanoseconds) * percentile // 100] / 1e6
