"""What survives a power failure: acknowledged lines with `--durability power`, and lines that wait in a spool.

Real processes write to a disk whose power fails meanwhile. With the default durability, or a spool that is never
synced, the same failure loses lines: where nothing is lost, that is not for want of a failure.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock

import orjson

from tests.cli.tap.spooling import Place, line
from tests.cli.tap.test_run import agent
from tests.cli.tap.test_spool import NEVER_MEANWHILE
from tests.daemon.constants import VARIABLE
from tests.daemon.disks import Disk, require_disks
from tests.daemon.ingest.test_kill9 import STREAMS, records, told_apart, unbroken
from tests.daemon.lives import Gone, Publisher, greeted, wait_for_ack
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire

GAP = b'{"op":"gap"'
SEED = 1
FAILURES = 5
MOST_LINES = 45
"""Acknowledged lines before a failure, at most: some of the publishers' 279 are left for every life."""


class Outages:
    """A journal that one daemon after another serves until the power of its disk fails. `lost`: number of lines that
    were acknowledged, and that the next daemon did not have. `seen`: what a subscriber has seen, who resumes by `seq`
    at the next daemon."""

    def __init__(self, folder: Path, durability: str) -> None:
        self._folder = folder
        self._disk = Disk(folder)
        self._durability = durability
        self._lock = Lock()
        self._left = 0
        """Lines to be acknowledged until the power fails; it does not if that is negative."""
        self._acknowledged = dict.fromkeys(STREAMS, 0)
        self.publishers = [Publisher(self, stream, records(stream)) for stream in STREAMS]
        self.lost = 0
        self.seen: list[bytes] = []

    def connect(self) -> Wire:
        return greeted(self._folder / "run" / "t.sock")

    def until_it_fails(self, lines: int) -> None:
        """Publish until so many lines are acknowledged."""
        self._left = lines
        with self._daemon() as daemon, self.connect() as subscriber:
            self._publish(daemon, subscriber)
            assert daemon.wait() == -signal.SIGKILL, "the publishers ended before the power failed"
            self.seen += events(subscriber)

    def to_the_end(self) -> list[bytes]:
        """Publish the rest. Returns the journal, as a subscriber reads it from the start."""
        self._left = -1
        with self._daemon() as daemon, self.connect() as subscriber, self.connect() as reader:
            self._publish(daemon, subscriber)
            reader.send("subscribe", after="start", follow=False)
            found = events(reader)
            while len(self.seen) < len(found):
                self.seen += filter(is_told, [subscriber.line()])
        return found

    @contextmanager
    def _daemon(self) -> Iterator[DaemonProcess]:
        config = self._folder / "tooltap.toml"
        config.write_text("settle_timeout = 1e9\n")
        options = ("--config", config, "--durability", self._durability)
        journal = self._disk.place / "journal.db"
        with DaemonProcess(self._folder, *options, journal=journal, within=self._disk.within) as daemon:
            yield daemon.wait_ready()

    def _publish(self, daemon: DaemonProcess, subscriber: Wire) -> None:
        subscriber.send("subscribe", after=orjson.loads(self.seen[-1])["seq"] if self.seen else "start")
        before = [(one, self._acknowledged[one.stream], len(one.resumed_at)) for one in self.publishers if not one.done]
        with ThreadPoolExecutor(len(before)) as pool:
            ends = [pool.submit(one.publish, partial(self._acknowledge, daemon, one)) for one, _, _ in before]
        assert all(isinstance(one.exception(), Gone | None) for one in ends)
        for publisher, acknowledged, lives in before:
            self.lost += sum(max(0, acknowledged - lines) for lines in publisher.resumed_at[lives:])

    def _acknowledge(self, daemon: DaemonProcess, publisher: Publisher, number: int, wire: Wire) -> None:
        wait_for_ack(number, wire)
        with self._lock:
            self._acknowledged[publisher.stream] = number
            self._left -= 1
            if self._left == 0:
                daemon.process.send_signal(signal.SIGSTOP)
                self._disk.cut(daemon.process.pid)
                daemon.process.kill()


def is_told(line: bytes) -> bool:
    """Whether it is a whole event, or a gap."""
    return (line.endswith(b"\n") and not line.startswith(b'{"op"')) or line.startswith(GAP)


def events(wire: Wire) -> list[bytes]:
    """The events and gaps until the connection ends."""
    return list(filter(is_told, wire.lines()))


def test_acknowledged_lines_survive(tmp_path: Path) -> None:
    """Several publishers at once, which resume after each failure."""
    require_disks()
    chance = random.Random(SEED)
    outages = Outages(tmp_path, "power")
    for _ in range(FAILURES):
        outages.until_it_fails(chance.randint(1, MOST_LINES))
    found = outages.to_the_end()

    assert outages.lost == 0
    assert [line for line in found if line.startswith(GAP)] == []
    assert outages.seen == found
    expected, done = unbroken()
    stored = told_apart(found)
    for publisher in outages.publishers:
        stream = publisher.stream
        assert [one for one in stored if one["stream"] == stream] == [
            one for one in expected if one["stream"] == stream
        ]
        assert publisher.done == done[stream]
    assert len(stored) == len(expected)


def test_default_durability_loses_what_this_failure_takes(tmp_path: Path) -> None:
    require_disks()
    outages = Outages(tmp_path, "process")
    outages.until_it_fails(MOST_LINES)
    outages.until_it_fails(1)

    assert outages.lost > 0


# -- a spool ----------------------------------------------------------------------------------------------------------

PRINTS = agent("""
import itertools, time
for number in itertools.count():
    print('{"n":%d}' % number, flush=True)
    time.sleep(0.005)
""")
PRINTING = 5.0
"""Seconds in which an agent prints before the power fails."""
WAITED = 4.0
"""Seconds after which a line must survive: the one that is promised, and three in which a busy machine syncs."""


def spooled_when_it_fails(place: Place, **changes: str) -> int:
    """Let an agent print line after line until the power fails; bring the spool that is left to the spools of `place`.
    Returns the number of lines that had waited."""
    disk, tap = Disk(place.folder), Place(place.folder)
    tap.variables = {"TOOLTAP_SPOOL": str(disk.place / "spool")}
    printed: list[float] = []
    with tap.start(*PRINTS, within=disk.within, **changes) as run:
        while not printed or printed[-1] < printed[0] + PRINTING:
            assert run.line() == line(len(printed))
            printed.append(time.monotonic())
        run.send_signal(signal.SIGSTOP)
        disk.cut(run.process.pid)
        run.kill()
    spools = place.folder / "spool"
    spools.mkdir(mode=0o700)
    script = 'for one in "$0"/*.spool; do [ ! -e "$one" ] || cp "$one" "$1"; done'
    subprocess.run([*disk.within, "sh", "-c", script, disk.place / "spool", spools], check=True)
    return bisect_left(printed, printed[-1] - WAITED)


def test_spooled_lines_survive(tmp_path: Path) -> None:
    """Those that have waited, while the agent goes on printing; each once and in order."""
    require_disks()
    place = Place(tmp_path)
    waited = spooled_when_it_fails(place)
    with place.serving() as daemon:
        daemon.wait_until_ended(1, "suspended")
        [found] = daemon.journal().values()

    lines = [one for one in found if isinstance(one, int)]
    assert lines == list(range(len(lines)))
    assert len(lines) >= waited > 0


def test_spool_that_is_not_synced_loses_what_this_failure_takes(tmp_path: Path) -> None:
    require_disks()
    place = Place(tmp_path)
    waited = spooled_when_it_fails(place, **{VARIABLE: json.dumps(NEVER_MEANWHILE)})

    assert waited > 0
    assert not any(place.spooled(number) for number in range(waited))
