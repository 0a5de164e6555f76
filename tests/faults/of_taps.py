"""Fault scenarios of taps: traces, followed files, `tooltap run`, and the spools that it leaves behind."""

from __future__ import annotations

import json
import os
import time
from typing import ClassVar

from tests.faults.of_journal import Ingest
from tests.faults.place import PATIENCE, Broken, T, eventually, recording
from tests.faults.scenario import BODIES, TRACED, Scenario
from tooltap.daemon.taps.delivery.spool import Ending, Header, Spool, frame
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.protocol.frames import Ingest as IngestFrame

__all__ = ["Draining", "Following", "Tap", "TapServed", "Tracing"]

SESSION_FILE = "claude-transcript/claude-code-2.1.330/shell-fails.jsonl"


class Tracing(Ingest):
    """Lines are traced into files that are rotated."""

    settings: ClassVar = f"trace_file_bytes = 16384\ntrace_total_bytes = 65536\n{Scenario.settings}"
    environment: ClassVar = TRACED

    def act(self) -> list[str]:
        failed = super().act()
        deadline = time.monotonic() + 0.4
        while not failed and time.monotonic() < deadline:  # the trace is written a little later
            try:
                trace = self.place.stats()["trace"]
            except OSError:
                break
            if trace["records"] + trace["dropped"] >= self._traced + len(self.stream.records):
                break
            time.sleep(0.03)
        return failed

    def before(self) -> None:
        super().before()
        trace = self.place.stats()["trace"]
        self._traced = trace["records"] + trace["dropped"]

    def after(self) -> None:
        super().after()
        for path in self.place.folder.glob("trace*.jsonl"):
            for line in path.read_bytes().splitlines():
                if line.count(b'"stream"') > 1 and not _is_json(line):
                    raise Broken(f"two records are torn into one in {path.name}")


class Following(Scenario):
    """A session file that grows is followed."""

    # The lines are old: a stream would end wherever its file ends for a moment.
    settings: ClassVar = (
        f"suspend_timeout = 1e9\nsettle_timeout = 1e9\n{Scenario.settings}[follow]\ngrace = 0.0\nrescan = 0.2\n"
    )
    arguments: ClassVar = ["--follow", "claude", "--backfill", "all"]
    environment: ClassVar = {"CLAUDE_CONFIG_DIR": "FOLDER/claude"}

    def before(self) -> None:
        place = self.place
        folder = place.folder / "claude" / "projects" / "-ws"
        folder.mkdir(parents=True, exist_ok=True)
        super().before()
        self.stream = place.stream(recording(SESSION_FILE))
        lines = [json.loads(record)["line"] for record in self.stream.records]
        self._lines = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in lines]
        session = next(json.loads(one)["sessionId"] for one in self._lines if "sessionId" in one)
        self._file = folder / f"{session}.jsonl"
        self._written = 0
        self._name = self.stream.name = recording_id(str(self._file))

    def act(self) -> list[str]:
        half = len(self._lines) // 2
        for start, lines in ((0, self._lines[:half]), (half, self._lines[half:])):
            self._append(lines)
            deadline = time.monotonic() + (0.5 if start else 0.7)
            while time.monotonic() < deadline:
                try:
                    if self._read() >= start + len(lines):
                        break
                except OSError:  # asking is not what is tested
                    pass
                assert self.place.daemon is not None
                if self.place.daemon.ended:
                    return []
                time.sleep(0.03)
        return []

    def _append(self, lines: list[str]) -> None:
        with self._file.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        self._written += len(lines)

    def after(self) -> None:
        self._append(self._lines[self._written :])
        eventually("the file is read", lambda: self._read() == len(self._lines))
        self.check(self.stream)

    def _read(self) -> int:
        return sum(one["lines"] for one in self.place.stats()["perStream"] if one["stream"] == self._name)


class Tap(Scenario):
    """`tooltap run` spools an agent's lines because no daemon is running; a daemon drains the spool later."""

    lines = 40
    served = False
    """Whether a daemon is running."""
    settings: ClassVar = f"drain_interval = 0.05\n[stream]\n{BODIES}"

    def before(self) -> None:
        place = self.place
        if self.served:
            place.ensure()
        elif place.daemon is not None:
            place.stop()
            place.daemon = None
        place.news()
        place.streams += 1
        self._output = place.folder / f"printed-{place.streams}"
        number = place.streams
        self._printed = "".join(f"round {number} line {one} {'x' * 90}\n" for one in range(self.lines))
        self._script = f"for i in $(seq 0 {self.lines - 1}); do echo round {number} line $i {'x' * 90}; done"

    def act(self) -> list[str]:
        place = self.place
        agent = ["sh", "-c", self._script]
        run = place.launch(
            "run", "--socket", place.socket, "--dialect", "claude-stream", "--", *agent, output=self._output
        )
        code = run.wait(PATIENCE)
        if code is None:
            run.kill()
            raise Broken("`tooltap run` does not end")
        self._killed = code == -9
        if not self._killed:
            if code != 0:
                raise Broken(f"`tooltap run` ends with {code}")
            if self._output.read_text() != self._printed:
                raise Broken("the agent's output is not what it printed")
        return []

    def after(self) -> None:
        place = self.place
        eventually("the spools are taken in", lambda: not list((place.folder / "spool").glob("*.spool")))
        events = place.read_all(place.last)
        texts = [one["text"] for one in events if one["kind"] == "unparsed" and one["text"].startswith("round")]
        lost = sum(one["data"]["lines"] for one in events if one.get("code") == "lost")
        expected = self._printed.splitlines()
        if self._killed:
            if texts != expected[: len(texts)] and not lost:
                raise Broken(f"after a kill there are other lines: {len(texts)} of {len(expected)}")
        elif len(texts) + lost != len(expected) and not any("lost" in one or "dropped" in one for one in self.told):
            raise Broken(f"{len(texts)} of {len(expected)} lines came, {lost} are reported lost: {self.told}")
        if len(set(texts)) != len(texts) or [one for one in expected if one in set(texts)] != texts:
            raise Broken("lines came twice, or in another order")
        place.last = max([place.last, *(one["seq"] for one in events)])


class TapServed(Tap):
    """`tooltap run` publishes to a daemon."""

    served = True
    silent: ClassVar = frozenset({*Scenario.silent, "connect", "socket"})


class Draining(Scenario):
    """A daemon takes in a spool that was left behind."""

    settings: ClassVar = f"drain_interval = 0.05\n[stream]\n{BODIES}"

    def before(self) -> None:
        place = self.place
        super().before()
        self.stream = place.stream([b"line %d" % number for number in range(40)])
        ingest = IngestFrame(stream=self.stream.name, framing="tapped", dialect="claude-stream")
        header = Header(socket=os.path.realpath(place.socket), ingest=ingest)
        spool = Spool.create(place.folder / "beside", header)
        for number, record in enumerate(self.stream.records, 1):
            spool.append(frame(record, number), 1)
        spool.end(Ending(len(self.stream.records), t=T))
        spool.close()
        self._beside = spool.path
        (place.folder / "spool").mkdir(mode=0o700, exist_ok=True)
        self._spool = place.folder / "spool" / spool.path.name

    def act(self) -> list[str]:
        self._beside.rename(self._spool)
        deadline = time.monotonic() + PATIENCE
        while self._spool.exists() and time.monotonic() < deadline:
            assert self.place.daemon is not None
            if self.place.daemon.ended:
                break
            if self.place.control.fired:  # a fault that lasts may keep the spool until it is disarmed
                deadline = min(deadline, time.monotonic() + 0.5)
            time.sleep(0.002)
        return []  # `after` waits until the spool is gone

    def after(self) -> None:
        eventually("the spool is taken in", lambda: not self._spool.exists())
        self.check(self.stream)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
