"""How long a line is under way: from before it is written to the daemon until a subscriber has its event, while 1,000
lines a second come.

The yardstick is a bare asyncio server that passes on what it reads, to the same readers. Each line carries the moment
it was written; the first ones, which find nothing loaded, carry none.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.children import Child
from tests.bench.harness import Figure, Options, alternate, median
from tests.bench.load import TEXT, open_stream, said
from tests.bench.readers import readers
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire

__all__ = ["TITLE", "measure"]

TITLE = "latency: milliseconds from a line to its event, at 1,000 lines a second"
PERIOD = 0.001
LINES = 3_000
FIRST = 200
"""Lines that are not timed."""
PERCENTILES = {1: {50: 3.0, 99: None}, 100: {50: None, 99: 20.0}}
"""Subscribers -> percentile -> what is to be reached."""


def measure(options: Options) -> list[Figure]:
    lines = max(10, round(LINES * options.scale))
    figures = []
    for subscribers, percentiles in PERCENTILES.items():
        sides = {side.__name__: partial(side, subscribers, lines) for side in (bare, daemon)}
        runs = alternate(sides, options.runs)
        for percentile, reach in percentiles.items():
            for side, samples in runs.items():
                name = f"{subscribers} of them, p{percentile}{', bare' if side == 'bare' else ''}"
                goal = {"reach": reach} if side == "daemon" and reach is not None else {}
                figures.append(median(name, (_at(one, percentile) for one in samples), "ms", better="less", **goal))
    return figures


def daemon(subscribers: int, lines: int) -> list[int]:
    """Nanoseconds, sorted."""
    with (
        tempfile.TemporaryDirectory() as folder,
        DaemonProcess(Path(folder)).wait_ready() as process,
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
    for number in range(FIRST + lines):
        time.sleep(max(0.0, due - time.perf_counter()))
        stamp = f"@{time.monotonic_ns()}@ " if number >= FIRST else ""
        wire.write(said(number, stamp + TEXT))
        due += PERIOD


def _checked(reading: Child, subscribers: int, lines: int) -> list[int]:
    _, nanoseconds = reading.result()
    assert len(nanoseconds) == subscribers * lines, f"{len(nanoseconds)} events of {subscribers * lines} were seen"
    return sorted(nanoseconds)


def _at(nanoseconds: list[int], percentile: int) -> float:
    return nanoseconds[len(nanoseconds) * percentile // 100] / 1e6
