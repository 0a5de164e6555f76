"""`make storm`: everything at once, and everything fails: publishers, followed files, taps, subscribers, questions and
answers, exports, searches, a collector of spans, a second daemon of which the first is a remote, a browser, retention,
under kills, full disks, jumps of the clock and cut connections.

At the end the faults stop, what was begun is finished, and one checker compares what every client, the collector and
the second daemon got. The exit code is 1 if anything differs. A seed gives the same lines, and the same faults in the
same order; what is done when one comes depends on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.browser.chromium import PROGRAM
from tests.programs import found
from tests.storm.agents import session_id
from tests.storm.checker import Expected, Ledger, Record, Row, Subscriber, check_with, unexplained, unsent
from tests.storm.collector import exported
from tests.storm.connection import cursors
from tests.storm.faults import Faults
from tests.storm.publishers import published
from tests.storm.readers import Reader, Received, position, received
from tests.storm.users import FOLLOWED, Users
from tests.storm.world import NAME, World

PUBLISHERS = 3
RATE = 2_500.0
"""Lines that each publisher sends in a second, at most."""
TELL = 30.0
"""Seconds between two lines of output."""
SAMPLE = 300
"""Words that are looked for at the end."""
MOUNTED = "TOOLTAP_STORM_MOUNTED"


class Storm:
    def __init__(self, folder: Path, seed: int, minutes: float) -> None:
        self.seed = seed
        self.minutes = minutes
        self.world = World(folder, seed)
        self.users = Users(self.world, seed)
        self.ledger = Ledger()
        self._raw = self.world.records / "events.jsonl"
        self._spans = self.world.records / "spans.jsonl"
        self._read_to = 0
        followed = session_id(FOLLOWED)
        self._filters: dict[str, tuple[str, dict[str, list[str]], float]] = {
            "recorder": ("socket", {}, 0),
            "socket-cut": ("cut", {}, 0),
            "messages": ("cut", {"kind": ["message"]}, 0),
            "session": ("socket", {"session": [followed]}, 0),
            "slow": ("socket", {"kind": ["tool-call", "tool-result"]}, 0.5),
            "http": ("http", {}, 0),
            "http-cut": ("http-cut", {"kind": ["tool-call", "usage"]}, 0),
        }

    def run(self) -> list[str]:
        world = self.world
        try:
            world.start()
            self._launch()
            victims = [name for name in self._names() if name != "recorder"]
            faults = Faults(world, self.seed, victims)
            self.users.start()
            end = time.monotonic() + self.minutes * 60
            told = time.monotonic()
            while time.monotonic() < end:
                faults.one()
                if time.monotonic() - told > TELL:
                    told = time.monotonic()
                    print(self._row(), flush=True)
            return self._check()
        finally:
            world.stopping.set()
            world.close()

    def _names(self) -> list[str]:
        return [*(f"publisher-{index}" for index in range(PUBLISHERS)), *self._filters, "collector"]

    def _launch(self) -> None:
        world = self.world
        cuts = [f"{world.cut_socket}={world.socket}", f"{world.cut_port}={world.port}"]
        world.launch("cutter", "cutter", str(self.seed), str(world.records / "cuts"), *cuts)
        world.until("the cutter listens", world.cut_socket.exists)
        options: dict[str, Any] = {"port": world.collector_port, "record": str(self._spans), "seed": self.seed}
        world.launch("collector", "collector", json.dumps(options))
        doors = {
            "socket": ("socket", str(world.socket)),
            "cut": ("socket", str(world.cut_socket)),
            "http": ("http", str(world.port)),
            "http-cut": ("http", str(world.cut_port)),
        }
        for name, (way, wanted, slow) in self._filters.items():
            door, place = doors[way]
            options = {"door": door, "place": place, "record": str(self._record(name)), "filter": wanted, "slow": slow}
            options |= {"token": str(world.token), "host": f"127.0.0.1:{world.port}"}
            options["raw"] = str(self._raw) if name == "recorder" else ""
            world.launch(name, "readers", json.dumps(options))
        options |= {"door": "socket", "place": str(world.other_socket), "record": str(self._record("other"))}
        world.launch("other", "readers", json.dumps({**options, "filter": {}, "slow": 0, "remote": NAME}))
        for index in range(PUBLISHERS):
            path = world.cut_socket if index == 0 else world.socket
            options = {"path": str(path), "record": str(world.records / f"publisher-{index}.jsonl"), "seed": self.seed}
            options |= {"first": (index + 1) * 0x100000, "rate": RATE}
            world.launch(f"publisher-{index}", "publishers", json.dumps(options))
        if found(PROGRAM):
            url = f"http://127.0.0.1:{world.port}"
            world.launch("browser", "browser", url, str(world.token), str(world.records / "browser"))

    def _record(self, name: str) -> Path:
        return self.world.records / f"{name}.received"

    def _row(self) -> str:
        counts = self.world.counts
        done = ", ".join(f"{counts[name]} {name}" for name in sorted(counts) if name != "events")
        return f"{self._events():>10,} events; {done}"

    def _events(self) -> int:
        return position(self._record("recorder"))

    # -- the end --------------------------------------------------------------------------------------------------

    def _check(self) -> list[str]:
        """Let everything finish, and compare."""
        world, users = self.world, self.users
        began = time.monotonic()
        world.free()
        world.ahead.write_text("0")
        world.stopping.set()
        world.until("the daemon answers", world.answers)
        users.join()
        world.end(*(f"publisher-{index}" for index in range(PUBLISHERS)))
        if found(PROGRAM):
            world.end("browser")
        world.until("spools are empty", lambda: not [*(world.disk / "spool").glob("*.spool")])
        streams = self._streams()
        world.until("session files are read", lambda: self._is_read(streams))
        while True:
            latest = self._latest()
            for name in self._filters:
                world.until(f"{name} has everything up to {latest}", partial(self._has, name, latest))
            world.until("everything is indexed", lambda: self._is_indexed(latest))  # noqa: B023
            world.until("everything is exported", lambda: world.ask("stats")["telemetry"]["behind"] == 0)
            stored, rows = self._stored(), self._rows()
            if world.ask("stats")["journal"]["latest"] == latest:  # else a stream was closed meanwhile
                break
        print(f"settled in {time.monotonic() - began:.0f} s", flush=True)
        numbers = random.Random(f"{self.seed} words")
        for number, expected in numbers.choices([*streams.items()], k=SAMPLE):
            if expected.acked > 2 and number != FOLLOWED:
                users.look_for(number, numbers.randrange(2, expected.acked), is_final=True)
        self._catch_up()
        self._read_on()
        self._examine()
        subscribers = [Subscriber(name, one[1], received(self._record(name))) for name, one in self._filters.items()]
        recorder = subscribers[0].received
        record = Record(
            lines=(),
            streams=streams,
            stored=stored,
            latest=latest,
            subscribers=subscribers,
            answers=users.answers,
            exports=users.exports,
            searches=users.searches,
            rows=rows,
            gaps=recorder.gaps,
            spans=exported(self._spans),
            other=received(self._record("other")),
            cursors=cursors(world.connections),
            unsent=[*unsent(world.log.read_bytes())],
            wrong=[*world.wrong, *self._logged()],
        )
        return check_with(record, self.ledger)

    def _is_indexed(self, latest: int) -> bool:
        index = self.world.ask("stats")["search"]
        return bool(index["upto"] >= latest and not index["behind"])

    def _has(self, name: str, latest: int) -> bool:
        return position(self._record(name)) >= latest

    def _streams(self) -> dict[int, Expected]:
        found = dict(self.users.streams)
        for index in range(PUBLISHERS):
            known, wrong = published(self.world.records / f"publisher-{index}.jsonl")
            for one in wrong:
                self.world.note(one)
            found |= {one.session: Expected(one.acked, one.total) for one in known.values()}
            last = max(known, default=0)  # killed before the first acknowledgement: perhaps some of it is there
            found |= {last + 1: Expected(0, 10_000)} if last else {}
        return found

    def _catch_up(self) -> None:
        """Read what the recorder has got since the last call."""
        with self._raw.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.ledger.add(line[:-1])
                self._read_to += len(line)

    def _is_read(self, streams: dict[int, Expected]) -> bool:
        self._catch_up()
        tallies = self.ledger.tallies
        files = {number: one.acked for number, one in streams.items() if number >= FOLLOWED}
        return all((tally := tallies.get(session_id(n))) and len(tally.lines) >= acked for n, acked in files.items())

    def _latest(self) -> int:
        """The end of the journal, when nothing more comes."""
        seen = [0, 0.0]

        def is_still() -> bool:
            with suppress(OSError, AssertionError):
                stats = self.world.ask("stats")
                latest = stats["journal"]["latest"]
                if latest != seen[0]:
                    seen[:] = [latest, time.monotonic()]
            return time.monotonic() - seen[1] > 5 and seen[0] > 0

        self.world.until("nothing more is stored", is_still)
        return int(seen[0])

    def _stored(self) -> Received:
        """What a new subscriber gets."""
        record = self._record("stored")
        record.unlink(missing_ok=True)
        with self.world.wire() as wire:
            wire.send("subscribe", after=0, follow=False)
            reader = Reader("socket", "", str(record), {}, 0, "", "", "")
            for line in wire.lines():
                reader.take([line.rstrip(b"\n")])
        return received(record)

    def _rows(self) -> list[Row]:
        rows: list[Row] = []
        cursor: str | None = None
        while True:
            more: dict[str, str] = {"cursor": cursor} if cursor else {}
            page = self.world.ask("sessions", limit=1_000, **more)
            for one in page["sessions"]:
                tokens = one.get("inputTokens", 0), one.get("outputTokens", 0)
                cost = None if one.get("costEstimated") else one.get("costUsd")
                rows.append(Row(one["session"], one["events"], one["calls"], *tokens, cost))
            if (cursor := page.get("cursor")) is None:
                return rows

    def _read_on(self) -> None:
        """Let the other daemon read everything, until a connection begins after that, and its reader as well."""
        world, record = self.world, self._record("other")
        world.until("the other daemon has everything", lambda: self._next_cursor() == len(self.ledger.crc) - 1)
        with world.wire(world.other_socket) as wire:
            latest = wire.ask("stats")["journal"]["latest"]
        world.until(f"the other daemon's reader has everything up to {latest}", lambda: position(record) >= latest)

    def _next_cursor(self) -> int:
        """Cut the other daemon off; return where its next connection begins."""
        known = len(cursors(self.world.connections))
        self.world.cut_off()
        self.world.until("the other daemon connects again", lambda: len(cursors(self.world.connections)) > known)
        return cursors(self.world.connections)[-1]

    def _examine(self) -> None:
        """The journals are intact, and nothing is wrong with the installation."""
        for daemon in (self.world.daemon, self.world.other):
            done = self.world.command("journal", "check", "--config", daemon.config)
            if done.returncode:
                self.world.note(f"`journal check`: {(done.stdout + done.stderr).decode()[-1_000:]}")
        done = self.world.command("doctor", "--json", "--config", self.world.config, "--timeout", "30")
        with suppress(ValueError):
            for one in json.loads(done.stdout)["findings"]:
                if one["level"] == "problem" and " left for " not in one["text"]:  # the disk of the machine
                    self.world.note(f"doctor: {one}")

    def _logged(self) -> Iterator[str]:
        """What the daemons have logged that no fault explains."""
        for daemon in (self.world.daemon, self.world.other):
            yield from unexplained(daemon.log.read_bytes())
        browser = self.world.records / "browser"
        yield from (f"the page: {one}" for one in (browser.read_text().splitlines() if browser.exists() else []))

    def summary(self, found: list[str]) -> str:
        counts = self.world.counts
        cuts = self.world.records / "cuts"
        counts["spans"] = sum(1 for _ in exported(self._spans))
        counts["deletions before spans were sent"] = len([*unsent(self.world.log.read_bytes())])
        counts["connections cut"] = cuts.stat().st_size if cuts.exists() else 0
        if not self.world.can_fill:
            counts["full disks"] = 0
        done = ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts) if name != "events")
        missed = "" if self.world.can_fill else "; the disk was never full: only root may mount one"
        return (
            f"{self.minutes:g} minutes, seed {self.seed}: {self._events():,} events, {done}{missed};"
            f" {len(found)} differences"
        )


def _can_unshare(unshare: str) -> bool:
    return subprocess.run([unshare, "-m", "true"], capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    options = parser.parse_args()
    unshare = shutil.which("unshare")
    if MOUNTED not in os.environ and os.geteuid() == 0 and unshare and _can_unshare(unshare):
        command = [unshare, "-m", sys.executable, "-m", "tests.storm", f"--minutes={options.minutes}"]
        os.execve(unshare, [*command, f"--seed={options.seed}"], {**os.environ, MOUNTED: "1"})
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    print(f"seed {options.seed}, in {folder}", flush=True)
    storm = Storm(folder, options.seed, options.minutes)
    found = storm.run()
    print("\n".join(found) or "no differences")
    print(storm.summary(found))
    if not found:
        shutil.rmtree(folder)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
