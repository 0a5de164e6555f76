"""Memory of the daemon per open stream, event and subscriber, and disk space per event.

One daemon gets in turn: a stream; 199 more, which stay open; 100,000 events; 1,000 subscribers; and more events than
fit into the sockets of subscribers that do not read. Each step measures the growth since the step before.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench.harness import Figure, Options, alternate, median
from tests.bench.processes.load import message_lines, open_stream, publish, resident
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire

__all__ = ["TITLE", "measure"]

TITLE = "memory: memory and disk space of the daemon"
STREAMS, STREAM_LINES = 200, 20
SUBSCRIBERS = 1_000
EVENTS, STREAM_EVENTS = 100_000, 10_000
FIRST_STREAM = "the daemon after one stream"


def measure(options: Options) -> list[Figure]:
    runs = alternate({"daemon": lambda: _run(options.scale)}, options.runs)["daemon"]
    return [
        median(name, (one[name] for one in runs), "MB" if name == FIRST_STREAM else "kB", better="less")
        for name in runs[0]
    ]


def _run(scale: float) -> dict[str, float]:
    streams, subscribers = max(2, round(STREAMS * scale)), max(1, round(SUBSCRIBERS * scale))
    lines = message_lines(max(10, round(STREAM_EVENTS * scale)))
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
        FIRST_STREAM: used[0],
        "per open stream, of 200": 1000 * (used[1] - used[0]) / (streams - 1),
        "per event, of 100,000": 1000 * (used[2] - used[1]) / (events - before),
        "per idle subscriber, of 1,000": 1000 * (used[3] - used[2]) / subscribers,
        "per subscriber that does not read": 1000 * (used[4] - used[3]) / subscribers,
        "disk space per event": disk / 1000 / total,
        "size of its line": len(lines) / 1000 / lines.count(b"\n"),
    }


def _leave_open(wire: Wire) -> None:
    wire.write(message_lines(STREAM_LINES))
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
