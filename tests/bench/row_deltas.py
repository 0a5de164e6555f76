"""A command prints 50 MB in 16,000 deltas: whether a delta costs the same as with a quarter as many, and how much
memory the daemon uses. A subscriber requests partials and reads them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, cpu_seconds_since, median
from tests.bench.lines.cost import bare
from tests.bench.lines.recorded import Recorded
from tests.bench.processes.load import open_stream, peak
from tests.bench.processes.readers import readers
from tests.daemon.processes import DaemonProcess
from tooltap.testing import Line

__all__ = ["TITLE", "measure"]

TITLE = "deltas: up to 50 MB of output of one command"
DELTAS = (4_000, 8_000, 16_000)
LINE_BYTES = 3_125
AT_ONCE = 100
"""Lines written at once."""
ITEM = {"type": "commandExecution", "id": "call_1", "command": "make", "cwd": "/tmp", "commandActions": []}


class Run(NamedTuple):
    cpu_seconds: float
    peak: float


def measure(options: Options) -> list[Figure]:
    counts = [max(10, round(count * options.scale)) for count in DELTAS]
    runs = alternate({count: partial(_run, count) for count in counts}, options.runs)
    few, *_, many = runs.values()
    lines = [Line(line) for line in _lines(counts[0])]
    reference = bare([Recorded("codex-app-server", None, lines)]) / len(lines)
    growth = (most.cpu_seconds / least.cpu_seconds for least, most in zip(few, many, strict=True))
    return [
        *(
            figure
            for count, samples in runs.items()
            for figure in (
                median(f"{count:,} deltas, each", (1e6 * one.cpu_seconds for one in samples), "µs", better="less"),
                median(f"{count:,} deltas, each", (reference / one.cpu_seconds for one in samples), "× bare"),
            )
        ),
        median(f"each of {counts[-1]:,}, × each of {counts[0]:,}", growth, "×", target=1.25, better="less"),
        median("peak memory of the daemon", (one.peak for one in many), "MB", target=200.0, better="less"),
    ]


def _run(count: int) -> Run:
    frame = {"op": "subscribe", "partials": True}
    with (
        tempfile.TemporaryDirectory() as folder,
        DaemonProcess(Path(folder)).wait_ready() as daemon,
        readers(daemon.path, 1, frame=frame) as reading,
        open_stream(daemon, "s", "codex-app-server") as wire,
    ):
        before = cpu_seconds(daemon.process.pid)
        lines = list(_lines(count))
        for start in range(0, len(lines), AT_ONCE):
            wire.write(b"".join(lines[start : start + AT_ONCE]))
        wire.finish()
        kinds = wire.until("done")[-1]["kinds"]
        run = Run(cpu_seconds_since(before, daemon.process.pid) / count, peak(daemon))
        daemon.process.terminate()
        reading.result()
    assert kinds["tool-result"] == 1, kinds
    return run


def _lines(count: int) -> Iterator[bytes]:
    """Lines as `codex app-server` prints them (codex-cli 0.169)."""
    place = {"threadId": "thread", "turnId": "turn"}
    started = {**ITEM, "status": "inProgress", "aggregatedOutput": None, "exitCode": None}
    yield _line("item/started", item=started, **place)
    delta = _line("item/commandExecution/outputDelta", itemId="call_1", **place, delta="")
    text = ("0123456789abcdef " * LINE_BYTES)[: LINE_BYTES - len(delta) - 1] + "\n"
    for _ in range(count):
        yield _line("item/commandExecution/outputDelta", itemId="call_1", **place, delta=text)
    yield _line("item/completed", item={**ITEM, "status": "completed", "exitCode": 0}, **place)


def _line(method: str, **params: Any) -> bytes:
    return orjson.dumps({"method": method, "params": params}) + b"\n"
