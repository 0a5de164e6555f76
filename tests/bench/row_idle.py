"""What an idle daemon costs: all agents are followed, the page is served, nothing runs and no page is open.

Counted are the processor time of the whole process, and the context switches of its threads. The system counts both, so
that other load on the machine adds little; only Linux says how often a thread was switched.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Note, Options, alternate, median
from tests.daemon.processes import DaemonProcess

__all__ = ["TITLE", "measure"]

TITLE = "idle: a daemon that has nothing to do"
SETTLING, MEASURED = 10.0, 30.0
"""Seconds after the start that are not measured, and that are."""
STORES = (".claude/projects/-w", ".codex/sessions", ".gemini/tmp", ".local/share/opencode")
WAKE_UPS, CORE = 20.0, 0.3
"""Targets: a second, and percent of a core."""


class Spent(NamedTuple):
    wake_ups: int
    seconds: float
    """Of processor time."""


def measure(options: Options) -> list[Figure | Note]:
    if sys.platform != "linux":
        return [Note("not measured: only Linux counts the switches of threads")]
    seconds = MEASURED * options.scale
    runs = alternate({"daemon": lambda: _run(SETTLING * options.scale, seconds)}, options.runs)["daemon"]
    return [
        median("wake-ups", (one.wake_ups / seconds for one in runs), "/s", better="less", target=WAKE_UPS),
        median("of a core", (100 * one.seconds / seconds for one in runs), "%", better="less", target=CORE),
    ]


def _run(settling: float, seconds: float) -> Spent:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tooltap.toml").write_text('[web]\nlisten = "127.0.0.1:0"\n')
        for store in STORES:
            (folder / store).mkdir(parents=True)
        arguments = ("--config", folder / "tooltap.toml", "--follow", "all", "--web")
        environment = {"HOME": name, "XDG_DATA_HOME": f"{name}/.local/share", "TOOLTAP_SPOOL": f"{name}/spool"}
        with DaemonProcess(folder, *arguments, **environment) as daemon:
            daemon.wait_ready()
            time.sleep(settling)
            before = _spent(daemon.process.pid)
            time.sleep(seconds)
            after = _spent(daemon.process.pid)
    return Spent(after.wake_ups - before.wake_ups, after.seconds - before.seconds)


def _spent(pid: int) -> Spent:
    """What the threads of a process have used so far. The system counts their time in nanoseconds."""
    switches = nanoseconds = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        nanoseconds += int((thread / "schedstat").read_text().split()[0])
        for line in (thread / "status").read_text().splitlines():
            if "ctxt_switches:" in line:
                switches += int(line.split()[1])
    return Spent(switches, nanoseconds / 1e9)
