"""The speed of replaying the whole journal to one subscriber, repeatedly, so that it is read from the page cache.
Events have 0.7 kB and were committed 50 at a time.

The baseline is a bare asyncio server that writes as many bytes; JetStream's journal is in a real nats-server. The speed
per second of the server's processor time is reported too, because it depends less on other load.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, cpu_seconds_since, median
from tests.bench.processes.children import Child
from tests.bench.processes.servers import EVENT_BYTES, events
from tests.daemon.events import commit
from tests.daemon.nats_server import NatsServer
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire
from tooltap.daemon.config import load_config
from tooltap.daemon.journal.open import open_journal

__all__ = ["TITLE", "measure"]

TITLE = "replay: megabytes per second from the journal to a subscriber"
MEGABYTES = 200
COMMIT = 50
RECEIVE_BYTES = 262_144
TARGETS = {"SQLite": {"target": 200.0}, "JetStream": {"target": 50.0}}


class Run(NamedTuple):
    """Result of a run, in megabytes per second."""

    speed: float
    per_cpu_second: float


def measure(options: Options) -> list[Figure]:
    commits = max(2, round(MEGABYTES * 1e6 * options.scale / COMMIT / EVENT_BYTES))
    size = commits * COMMIT * EVENT_BYTES
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(NatsServer(folder))
        baseline = stack.enter_context(Child("servers", "send", folder / "bare.sock", size))
        sides = {"a bare server": partial(_receive, folder / "bare.sock", baseline.pid, size, subscribe=False)}
        for name, journal in {"SQLite": str(folder / "journal.db"), "JetStream": server.url}.items():
            anyio.run(_fill, journal, commits)
            daemon = stack.enter_context(DaemonProcess(folder / name, journal=journal)).wait_ready()
            sides[name] = partial(_receive, daemon.path, daemon.process.pid, size, subscribe=True)
        runs = alternate(sides, options.runs)
    return [
        figure
        for name, samples in runs.items()
        for figure in (
            median(name, (one.speed for one in samples), "MB/s", **TARGETS.get(name, {})),
            median(f"{name}, per second of processor time", (one.per_cpu_second for one in samples), "MB/s"),
        )
    ]


async def _fill(journal: str, commits: int) -> None:
    opened = await open_journal(load_config(None, journal=journal).journal_place, "process")
    try:
        for number in range(commits):
            await opened.commit(commit(*events(COMMIT), base=number))
    finally:
        await opened.close()


def _receive(path: Path, pid: int, size: int, *, subscribe: bool) -> Run:
    with Wire(path) as wire:
        cpu, start = cpu_seconds(pid), time.perf_counter()
        if subscribe:
            wire.send("subscribe", after="start", follow=False)
        received = 0
        while data := wire.socket.recv(RECEIVE_BYTES):
            received += len(data)
        seconds = time.perf_counter() - start
    assert received >= size, f"{received} of {size} bytes were received"
    return Run(received / 1e6 / seconds, received / 1e6 / cpu_seconds_since(cpu, pid))
