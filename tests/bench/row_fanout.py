"""The cost of delivering an event to subscribers, relative to a bare asyncio server that writes the same chunks.

Both servers (`servers.py`) run alternately with the same readers (`readers.py`). Time, and the server's processor time,
is measured from the first write until the readers' sockets have taken everything; so it does not contain how long a
daemon takes to stop. A chunk is 50 events of 0.7 kB, or one.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, median
from tests.bench.processes.children import Child
from tests.bench.processes.readers import readers

__all__ = ["TITLE", "measure"]

TITLE = "fanout: events delivered in the same time, × those of a bare asyncio server"
SUBSCRIBERS = {1: 0.5, 10: 0.8, 100: 0.7, 1_000: 0.7}
"""Number of subscribers -> target."""
DELIVERIES = {50: 2_000_000, 1: 200_000}
"""Events per chunk -> events delivered in one run, counted for each subscriber."""
MAX_BATCHES = 20_000
SMALL = 0.05
"""Below this scale the row only checks that it works."""


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    deliveries: int


def measure(options: Options) -> list[Figure]:
    return [
        figure
        for events, deliveries in DELIVERIES.items()
        for subscribers, target in SUBSCRIBERS.items()
        if options.scale >= SMALL or subscribers == 10
        for figure in _compare(subscribers, events, round(deliveries * options.scale), target, options)
    ]


def _compare(subscribers: int, events: int, deliveries: int, target: float, options: Options) -> list[Figure]:
    batches = max(1, min(MAX_BATCHES, deliveries // (events * subscribers)))
    sides = {side: partial(_run, side, subscribers, batches, events) for side in ("bare", "hub")}
    runs = alternate(sides, options.runs)
    pairs = list(zip(runs["bare"], runs["hub"], strict=True))
    name = f"{subscribers:,} subscriber{'s' * (subscribers > 1)}, chunks of {events}"
    return [
        median(name, (bare.seconds / hub.seconds for bare, hub in pairs), "× bare", target=target),
        median(name, (bare.cpu_seconds / hub.cpu_seconds for bare, hub in pairs), "× bare, processor"),
        median(name, (1e6 * hub.cpu_seconds / hub.deliveries for _, hub in pairs), "µs/event", better="less"),
    ]


def _run(side: str, subscribers: int, batches: int, events: int) -> Run:
    frame = {"op": "subscribe", "after": "now"} if side == "hub" else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run" / "t.sock"
        with (
            Child("servers", side, path, subscribers, batches, events) as server,
            readers(path, subscribers, frame=frame) as reading,
        ):
            server.go()
            seconds, cpu, written = server.result()
            received, _ = reading.result()
    assert received >= written, f"{received} bytes of {written} were received"
    return Run(seconds, cpu, batches * events * subscribers)
