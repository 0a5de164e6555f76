"""`make lab-soak`: sends a million events through a daemon with a small journal, and checks that nothing grows: memory,
open files, disk space.

Prints a table of the daemon's resources as it runs. The exit code is 1 if anything grew. It takes minutes, so it is not
a test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.daemon.constants import write_settings
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire
from tooltap.protocol.inputs import write_tapped

PUBLISHERS = 4
STREAM_LINES = 5_000
LINE = "not JSON ".ljust(60, "x").encode()
"""A line that gives an event of about 300 bytes."""
JOURNAL_BYTES = 32 * 1024 * 1024
MEMORY_GROWTH = 16 * 1024 * 1024
MAX_DISK = 4 * JOURNAL_BYTES
"""Maximum bytes on disk: the journal, the overhead of open streams, and SQLite's write-ahead log."""


class Used(NamedTuple):
    events: int
    memory: int
    files: int
    disk: int


class Follower(threading.Thread):
    """A subscriber. Every `seq` must arrive or be inside a reported gap."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire
        self.latest = 0
        self.missing = 0
        self.gaps = 0

    def run(self) -> None:
        self._wire.send("subscribe", after="start")
        for line in self._wire.lines():
            value = json.loads(line)
            if value.get("op") == "gap":
                self.gaps += 1
                self.latest = max(self.latest, value["to"])
            elif value.get("seq", 0) > self.latest:  # retained events inside a gap may follow it
                self.missing += value["seq"] - self.latest - 1
                self.latest = value["seq"]


def publish(daemon: DaemonProcess, stream: str) -> None:
    record = write_tapped(LINE, 1, "out") + b"\n"
    with daemon.connect() as wire:
        wire.send("ingest", stream=stream, framing="tapped", dialect="claude-stream")
        wire.write(record * STREAM_LINES)
        wire.send("end")
        wire.until("done")


def used(daemon: DaemonProcess, directory: Path, events: int) -> Used:
    pid = str(daemon.process.pid)
    memory = subprocess.run(["ps", "-o", "rss=", "-p", pid], capture_output=True, check=True).stdout
    files = len(os.listdir(f"/proc/{pid}/fd")) if sys.platform == "linux" else 0
    size = 0
    for file in directory.glob("journal.db*"):
        with suppress(FileNotFoundError):  # a rollback journal of the index: gone after its transaction
            size += file.stat().st_size
    return Used(events, int(memory) * 1024, files, size)


def soak(events: int, directory: Path) -> list[str]:
    """Run the daemon, and return what grew."""
    settings = directory / "soak.toml"
    text = f'retention_bytes = {JOURNAL_BYTES}\nretention_interval = 0.5\nlog_level = "warning"\n'
    constants = write_settings(settings, text)
    start = time.monotonic()
    samples: list[Used] = []
    with DaemonProcess(directory, "--config", settings, **constants) as daemon:
        while not daemon.path.exists():
            time.sleep(0.01)
        follower, stuck = Follower(daemon.connect()), daemon.connect()
        stuck.send("subscribe", after="start")
        follower.start()
        streams = (f"s{number}" for number in range(events // STREAM_LINES))
        published = 0
        with ThreadPoolExecutor(PUBLISHERS) as pool:
            for _ in pool.map(lambda stream: publish(daemon, stream), streams):
                published += STREAM_LINES
                if published % (events // 20) == 0:
                    samples.append(used(daemon, directory, published))
                    print(_row(samples[-1]), flush=True)
        seconds = time.monotonic() - start
        while follower.latest < published:
            time.sleep(0.1)
        daemon.process.terminate()
        follower.join()
        stuck.close()
    print(f"{events / seconds:,.0f} events/s; {follower.gaps} gaps were reported to the subscriber that reads")
    return _grown(samples, follower.missing)


def _grown(samples: list[Used], missing: int) -> list[str]:
    settled = samples[len(samples) // 4 :]
    first = settled[0]
    found = []
    if max(one.memory for one in settled) - first.memory > MEMORY_GROWTH:
        found.append("memory grew")
    if max(one.files for one in settled) > first.files + PUBLISHERS:
        found.append("open files grew")
    if max(one.disk for one in samples) > MAX_DISK:
        found.append(f"the journal took more than {MAX_DISK / 1e6:.0f} MB")
    if missing:
        found.append(f"{missing} events were neither delivered nor reported as a gap")
    return found


def _row(sample: Used) -> str:
    return (
        f"{sample.events:>10,} events  {sample.memory / 1e6:7.1f} MB of memory"
        f"  {sample.files:4} files  {sample.disk / 1e6:7.1f} MB on disk"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    with TemporaryDirectory() as directory:
        grown = soak(parser.parse_args().events, Path(directory))
    print("; ".join(grown) or "nothing grew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
