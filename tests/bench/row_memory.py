"""What the daemon keeps: memory for each open stream, each event and each subscriber, and disk for each event.

One life of a daemon: a stream; 199 more, which stay open; 100,000 events; 1,000 subscribers; and more events than those
can be sent without reading. Each is measured from where the one before has left the memory.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench.harness import Figure, Options, alternate, median
from tests.bench.load import open_stream, publish, resident, said_lines
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire

__all__ = ["TITLE", "measure"]

TITLE = "memory: what the daemon keeps"
STREAMS, STREAM_LINES = 200, 20
SUBSCRIBERS = 1_000
EVENTS, STREAM_EVENTS = 100_000, 10_000
ALONE = "a daemon that has had one stream"


def measure(options: Options) -> list[Figure]:
    runs = alternate({"daemon": lambda: _run(options.scale)}, options.runs)["daemon"]
    return [
        median(name, (one[name] for one in runs), "MB" if name == ALONE else "kB", better="less") for name in runs[0]
    ]


def _run(scale: float) -> dict[str, float]:
    streams, subscribers = max(2, round(STREAMS * scale)), max(1, round(SUBSCRIBERS * scale))
    lines = said_lines(max(10, round(STREAM_EVENTS * scale)))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        daemon = stack.enter_context(DaemonProcess(folder).wait_ready())
        publish(daemon, "first", lines)
        with _subscriber(daemon):
            used = [resident(daemon)]
        for number in range(1, streams):
            _leave_open(stack.enter_context(open_stream(daemon, f"open{number}")))
        used.append(resident(daemon))
        before = _events(daemon)
        for number in range(EVENTS // STREAM_EVENTS):
            publish(daemon, f"s{number}", lines)
        events = _events(daemon)
        used.append(resident(daemon))
        for _ in range(subscribers):
            stack.enter_context(_subscriber(daemon))
        used.append(resident(daemon))
        publish(daemon, "last", lines)
        used.append(resident(daemon))
        total = _events(daemon)
        daemon.process.terminate()
        daemon.wait()
        disk = (folder / "journal.db").stat().st_size
    return {
        ALONE: used[0],
        "each of 200 open streams": 1000 * (used[1] - used[0]) / (streams - 1),
        "each of 100,000 events": 1000 * (used[2] - used[1]) / (events - before),
        "each of 1,000 idle subscribers": 1000 * (used[3] - used[2]) / subscribers,
        "each of them when it does not read": 1000 * (used[4] - used[3]) / subscribers,
        "on disk, each event": disk / 1000 / total,
        "its line": len(lines) / 1000 / lines.count(b"\n"),
    }


def _leave_open(wire: Wire) -> None:
    wire.write(said_lines(STREAM_LINES))
    while wire.until("ack")[-1]["lines"] < STREAM_LINES:
        pass


def _subscriber(daemon: DaemonProcess) -> Wire:
    wire = daemon.connect()
    wire.send("subscribe")
    wire.until("live")
    return wire


def _events(daemon: DaemonProcess) -> int:
    with daemon.connect() as wire:
        return int(wire.ask("stats")["journal"]["latest"])
