"""The daemon's processor time for each line, from its socket to the commit: a real process with a journal on SQLite,
and one publisher that never waits.

The lines have 0.6 kB: messages; and messages, calls and results in turn. The events and their bytes are counted by
normalizing the same lines here. What is not spent in the daemon's first thread, which has the event loop, is nearly all
spent in the thread that writes the journal.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import (
    Figure,
    Options,
    alternate,
    cpu_seconds,
    cpu_seconds_since,
    main_thread_seconds,
    median,
    program,
)
from tests.bench.lines.cost import Cost, bare, figures
from tests.bench.lines.engine import normalized
from tests.bench.lines.generated import conversation
from tests.bench.lines.recorded import Recorded, amount
from tests.bench.processes.load import message_lines, message_recording, publish
from tests.daemon.processes import DaemonProcess

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "daemon: its processor time from the socket to the commit"
PROGRAM = True
LINES = 50_000
WARM_UP = 2_000
"""Lines of another stream that are published first."""


class Run(NamedTuple):
    cost: Cost
    loop_seconds: float | None
    """Processor seconds of the event loop's thread."""


def measure(options: Options) -> list[Figure]:
    lines = max(10, round(LINES * options.scale))
    targets = {"messages": 35.0, "messages, calls and results": None}
    made: dict[str, Callable[[], Recorded]] = {
        "messages": partial(message_recording, lines),
        "messages, calls and results": partial(conversation, "claude-stream", lines),
    }
    runs = alternate({name: partial(_run, make, options) for name, make in made.items()}, options.runs)
    results = []
    for name, samples in runs.items():
        results += figures(name, (one.cost for one in samples), amount([made[name]()]), each=targets[name])
        loops = [(one.loop_seconds, one.cost) for one in samples if one.loop_seconds is not None]
        if loops:
            each = (1e6 * seconds / cost.lines for seconds, cost in loops)
            results.append(median(f"{name}: the event loop", each, "µs/line", better="less"))
            each = (1e6 * (cost.seconds - seconds) / cost.lines for seconds, cost in loops)
            results.append(median(f"{name}: other threads", each, "µs/line", better="less"))
    return results


def _run(make: Callable[[], Recorded], options: Options) -> Run:
    recorded = make()
    data = b"".join(line.data + b"\n" for line in recorded.lines if isinstance(line.data, bytes))
    with (
        tempfile.TemporaryDirectory() as folder,
        DaemonProcess(Path(folder), **program(options.tree)) as daemon,
    ):
        publish(daemon.wait_ready(), "first", message_lines(WARM_UP))
        pid = daemon.process.pid
        before, loop_before = cpu_seconds(pid), main_thread_seconds(pid)
        done = publish(daemon, "s", data)
        seconds, loop = cpu_seconds_since(before, pid), main_thread_seconds(pid)
    assert done["lines"] == len(recorded.lines), f"{done['lines']} of {len(recorded.lines)} lines were read"
    cost = normalized([recorded])._replace(seconds=seconds, bare=bare([recorded]))
    return Run(cost, None if loop is None or loop_before is None else loop - loop_before)
