"""The cost of a subscriber that never reads, while 200,000 events go to one that does: how much the daemon's memory
grows after the first tenth of the events. Daemons with and without the stuck subscriber run alternately."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, median
from tests.bench.processes.load import message_lines, peak, publish, resident
from tests.bench.processes.readers import readers
from tests.daemon.processes import DaemonProcess

__all__ = ["TITLE", "measure"]

TITLE = "stuck: a subscriber that never reads"
EVENTS = 200_000
STREAM_EVENTS = 10_000


class Run(NamedTuple):
    growth: float
    cpu_seconds: float


def measure(options: Options) -> list[Figure]:
    lines = message_lines(max(10, round(STREAM_EVENTS * options.scale)))
    runs = alternate({stuck: partial(_run, lines, stuck) for stuck in (0, 1)}, options.runs)
    pairs = list(zip(runs[0], runs[1], strict=True))
    return [
        median("growth of the daemon's memory", (one.growth for one in runs[1]), "MB", target=16.0, better="less"),
        median("growth without the stuck subscriber", (one.growth for one in runs[0]), "MB", better="less"),
        median(
            "processor time, × that without it",
            (one.cpu_seconds / no.cpu_seconds for no, one in pairs),
            "×",
            better="less",
        ),
    ]


def _run(lines: bytes, stuck: int) -> Run:
    frame = {"op": "subscribe", "after": "start"}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        daemon = stack.enter_context(DaemonProcess(Path(folder)).wait_ready())
        for _ in range(stuck):
            wire = stack.enter_context(daemon.connect())
            wire.send(**frame)
        reading = stack.enter_context(readers(daemon.path, 1, frame=frame))
        streams = EVENTS // STREAM_EVENTS
        for number in range(streams // 10):
            publish(daemon, f"first{number}", lines)
        before, cpu = resident(daemon), cpu_seconds(daemon.process.pid)
        for number in range(streams):
            publish(daemon, f"s{number}", lines)
        run = Run(peak(daemon) - before, cpu_seconds(daemon.process.pid) - cpu)
        daemon.process.terminate()
        reading.result()
    return run
