"""Linearity of the daemon's work: processor time per event with ten and a hundred times as many events, and with 200
concurrent streams instead of one. Each line gives one event."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, cpu_seconds_since, median
from tests.bench.lines.cost import Cost, bare
from tests.bench.lines.engine import normalized
from tests.bench.processes.load import message_lines, message_recording, open_stream, publish
from tests.daemon.processes import DaemonProcess

__all__ = ["TITLE", "measure"]

TITLE = "linear: processor time of the daemon per event"
EVENTS = (10_000, 100_000)
MANY_EVENTS = 1_000_000
"""Number of events with `--long`."""
STREAMS = 200
TURN_LINES = 10
"""Lines written to one stream before the next stream."""
WARM_UP = 1_000
"""Lines published before measuring."""


class Load(NamedTuple):
    events: int
    streams: int


def measure(options: Options) -> list[Figure]:
    few, many, *most = (max(10, round(one * options.scale)) for one in (*EVENTS, *[MANY_EVENTS] * options.long))
    streams = max(2, round(STREAMS * min(1, options.scale)))
    loads = [Load(few, 1), Load(many, 1), Load(many, streams), *(Load(one, 1) for one in most)]
    runs = alternate({_name(load): partial(_run, load) for load in loads}, options.runs)
    base = runs[_name(loads[0])]
    line = _line()
    return [
        *(
            figure
            for name, samples in runs.items()
            for figure in (
                median(name, (1e6 * one for one in samples), "µs", better="less"),
                median(name, (line.size / 1e6 / one for one in samples), "MB/s out"),
                median(name, (line.bare / one for one in samples), "× bare"),
            )
        ),
        *(
            median(f"{name}, × the first", (one / first for one, first in zip(samples, base, strict=True)), "×")
            for name, samples in list(runs.items())[1:]
        ),
    ]


def _name(load: Load) -> str:
    return f"{load.events:,} events, {load.streams:,} stream{'s' * (load.streams > 1)}"


def _line() -> Cost:
    """Measure the bytes of a line's event, and the reference's time for the line."""
    recorded = [message_recording(WARM_UP)]
    return normalized(recorded)._replace(bare=bare(recorded)).of(1)


def _run(load: Load) -> float:
    """Processor seconds per event."""
    with tempfile.TemporaryDirectory() as folder, DaemonProcess(Path(folder)) as daemon:
        publish(daemon.wait_ready(), "first", message_lines(WARM_UP))
        before = cpu_seconds(daemon.process.pid)
        with ExitStack() as stack:
            wires = [stack.enter_context(open_stream(daemon, f"s{number}")) for number in range(load.streams)]
            for line in range(0, load.events // load.streams, TURN_LINES):
                data = message_lines(TURN_LINES, line)
                for wire in wires:
                    wire.write(data)
            for wire in wires:
                wire.finish()
            for wire in wires:
                wire.until("done")
        return cpu_seconds_since(before, daemon.process.pid) / load.events
