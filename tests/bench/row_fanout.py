"""What it costs to bring an event to many subscribers, as a ratio to a bare asyncio server that writes the same chunks.

Two processes take turns as the server (`fanout_servers.py`), the same readers read from both (`readers.py`). Time runs
from the first write until the readers have all of it; processor time is the server's. Chunks are of 50 events of 0.7 kB,
or of one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, median
from tests.bench.readers import ROOT, Readers

__all__ = ["TITLE", "measure"]

TITLE = "fanout: events delivered in the same time, × those of a bare asyncio server"
SUBSCRIBERS = {1: 0.5, 10: 0.7, 100: 0.7, 1_000: 0.7}
"""How many -> what is to be reached."""
DELIVERIES = {50: 2_000_000, 1: 200_000}
"""Events a chunk -> events delivered in one turn, counted for each subscriber."""
MOST_BATCHES = 20_000


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    deliveries: int


def measure(options: Options) -> list[Figure]:
    figures = []
    for events, deliveries in DELIVERIES.items():
        for subscribers, reach in SUBSCRIBERS.items():
            count = max(1, min(MOST_BATCHES, round(deliveries * options.scale / events / subscribers)))
            subscribers = max(1, round(subscribers * min(1, 10 * options.scale)))
            runs = alternate(
                {side: partial(_run, side, subscribers, count, events) for side in ("bare", "hub")}, options.runs
            )
            pairs = list(zip(runs["bare"], runs["hub"], strict=True))
            name = f"{subscribers:,} subscribers, {events} a chunk"
            figures += [
                median(name, (bare.seconds / hub.seconds for bare, hub in pairs), "×", reach=reach),
                median(f"{name}, processor", (bare.cpu_seconds / hub.cpu_seconds for bare, hub in pairs), "×"),
                median(f"{name}, a delivery", (1e6 * hub.cpu_seconds / hub.deliveries for _, hub in pairs), "µs"),
            ]
    return figures


def _run(side: str, subscribers: int, batches: int, events: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run" / "t.sock"
        arguments = [side, str(path), str(subscribers), str(batches), str(events)]
        with subprocess.Popen(
            [sys.executable, "-m", "tests.bench.fanout_servers", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        ) as server:
            assert server.stdin is not None and server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            readers = Readers(path, subscribers, {"after": "now"} if side == "hub" else None)
            start = time.perf_counter()
            server.stdin.write(b"go\n")
            server.stdin.flush()
            cpu, written = json.loads(server.stdout.readline())
            received = readers.result().bytes
            seconds = time.perf_counter() - start
    assert received >= written, (received, written)
    return Run(seconds, cpu, batches * events * subscribers)
