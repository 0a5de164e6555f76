"""A subscription to one tool, of a million events: the time until the first event, if the tool is used only at the end,
and until the answer that there is none, if it is never used.

The journal is filled once, over the socket: 20 streams of calls and results. It is read from the page cache.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.bench.harness import Figure, Options, alternate, median, program
from tests.bench.processes.load import open_stream
from tests.daemon.processes import DaemonProcess

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "filter: milliseconds from a subscription to one tool, of a million events, to its first event"
PROGRAM = True
EVENTS = 1_000_000
STREAMS = 20
BLOCKS = 20
"""Number of calls in one line."""
TOOLS = ("Bash", "Read", "Edit", "Grep", "Write")
LAST = "WebFetch"
"""The tool of the last call."""
NEVER = "NotebookEdit"
TIMEOUT = 600
"""Seconds without a byte from the daemon."""


def measure(options: Options) -> list[Figure]:
    pairs = max(1, round(EVENTS * options.scale / STREAMS / BLOCKS / 2))
    with (
        tempfile.TemporaryDirectory() as folder,
        DaemonProcess(Path(folder), **program(options.tree)) as daemon,
    ):
        daemon.wait_ready()
        events = sum(_fill(daemon, number, pairs) for number in range(STREAMS))
        sides = {
            "a tool of the last call": partial(_first, daemon, {"tool": [LAST]}, expect=LAST),
            "a tool that is never used: none": partial(_first, daemon, {"tool": [NEVER]}, expect=None),
            "without a filter": partial(_first, daemon, {}, expect=None),
        }
        runs = alternate(sides, options.runs)
    target = {"a tool of the last call": {"target": 20.0}}
    return [
        median(name, samples, "ms", better="less", read=f"{events:,} events", **target.get(name, {}))
        for name, samples in runs.items()
    ]


def _fill(daemon: DaemonProcess, stream: int, pairs: int) -> int:
    """Publish a stream; returns the number of its events."""
    with open_stream(daemon, f"s{stream}") as wire:
        wire.socket.settimeout(TIMEOUT)
        for number in range(pairs):
            last = stream == STREAMS - 1 and number == pairs - 1
            wire.write(_pair(f"{stream}_{number}", last=last))
        wire.finish()
        return int(wire.until("done")[-1]["events"])


def _pair(number: str, *, last: bool) -> bytes:
    """Return a line of calls, and one of their results."""
    ids = [f"toolu_{number}_{index}" for index in range(BLOCKS)]
    names = [TOOLS[index % len(TOOLS)] for index in range(BLOCKS)]
    if last:
        names[-1] = LAST
    calls: list[dict[str, Any]] = [
        {"type": "tool_use", "id": one, "name": name, "input": {"file_path": f"/tmp/ws/{one}.py"}}
        for one, name in zip(ids, names, strict=True)
    ]
    results = [{"type": "tool_result", "tool_use_id": one, "content": "ok"} for one in ids]
    said = {"id": f"msg_{number}", "role": "assistant", "content": calls}
    values = [{"type": "assistant", "message": said}, {"type": "user", "message": {"role": "user", "content": results}}]
    session = f"5e55-{number.partition('_')[0]}"
    return b"".join(orjson.dumps({**one, "session_id": session}) + b"\n" for one in values)


def _first(daemon: DaemonProcess, wanted: dict[str, list[str]], *, expect: str | None) -> float:
    """Measure the milliseconds until the first event, or until the frame that says that there is none."""
    with daemon.connect() as wire:
        wire.socket.settimeout(TIMEOUT)
        start = time.perf_counter()
        wire.send("subscribe", after="start", follow=False, filter=wanted)
        while (got := wire.read()).get("op") in ("subscribed", "at"):
            pass
        seconds = time.perf_counter() - start
        assert wanted == {} or got.get("name") == expect, got
    return 1000 * seconds
