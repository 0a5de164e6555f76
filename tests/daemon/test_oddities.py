"""What machines do: they sleep, set their clocks, run out of disk and of file descriptors, and stop processes.

Each test ends in full recovery, with every line in the journal once, and one sentence that says what was wrong. They
take moments; `make lab-oddities` takes as long as such things last.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.command import Child, environment, start, tooltap
from tests.cli.tap.spooling import Daemon, Place, until
from tests.cli.tap.test_spool import ECHO, echo, prints
from tests.daemon.constants import write_settings
from tests.daemon.running import Wire
from tests.programs import require

LASTS = float(os.environ.get("TOOLTAP_LASTS", "1"))
"""Seconds that a process is stopped, or a disk full."""
IS_LONG = LASTS > 10
HOUR = 3_600_000
BUSY = 0.4
"""Of a processor: a daemon or tap that takes more is in a busy loop."""
JUMPED = "the clock has jumped; closing and deleting by age is paused"
WEB = ("[web]", "enabled = true", 'listen = "127.0.0.1:0"')


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Log:
    """What a daemon writes to standard error, read as it comes."""

    def __init__(self, daemon: Child) -> None:
        self._daemon = daemon
        self.text = b""

    def read(self) -> str:
        stderr = self._daemon.process.stderr
        assert stderr is not None
        if not stderr.closed:
            os.set_blocking(stderr.fileno(), False)
            self.text += stderr.read() or b""
        return self.text.decode()

    def entries(self, event: str) -> list[dict[str, Any]]:
        whole = [json.loads(one) for one in self.read().splitlines() if one.startswith("{") and one.endswith("}")]
        return [one for one in whole if one["event"] == event]


@contextmanager
def shifted(place: Place, *settings: str) -> Iterator[tuple[Daemon, Log, Path]]:
    """A daemon whose clock is as far ahead as the file says."""
    ahead = place.folder / "ahead"
    ahead.write_text("0")
    config = place.folder / "tooltap.toml"
    constants = write_settings(config, "\n".join(["drain_interval = 0.05", *settings]))
    options = ["serve", "--socket", place.socket, "--journal", place.folder / "journal.db", "--config", config]
    command = [sys.executable, "-m", "tests.daemon.shifted", ahead, *options]
    with subprocess.Popen(
        list(map(str, command)), stderr=subprocess.PIPE, env=environment(**place.variables, **constants)
    ) as process:
        try:
            child = Child(process)
            while b"listening" not in (logged := child.log_line()):
                assert logged, "the daemon has ended"
            yield Daemon(place, child), Log(child), ahead
        finally:
            process.kill()


def lines_of(daemon: Daemon) -> list[list[Any]]:
    return list(daemon.journal().values())


def is_indexed(daemon: Daemon) -> bool:
    """Whether the search index is complete, so that it needs no file for a transaction, and frees none."""
    stats = daemon.ask("stats")
    return bool(stats["search"]["upto"] >= stats["journal"]["latest"])


def used(pid: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stays_idle(*pids: int) -> None:
    """The processes take little processor time for a while."""
    before, began = sum(map(used, pids)), time.monotonic()
    time.sleep(LASTS)
    assert (sum(map(used, pids)) - before) / (time.monotonic() - began) < BUSY * len(pids)


def said(finished: subprocess.CompletedProcess[bytes]) -> str:
    """The one sentence. On a slow machine the daemon's log may say so as well."""
    [one] = [row for row in finished.stderr.decode().splitlines() if not row.startswith("{")]
    return one.removeprefix("tooltap: ")


def stop(*children: Child) -> None:
    for child in children:
        child.send_signal(signal.SIGSTOP)


def resume(*children: Child) -> None:
    for child in children:
        child.send_signal(signal.SIGCONT)


def seqs(wire: Wire, until_seq: int) -> list[int]:
    """What a subscriber has seen, up to this event."""
    seen = [wire.read()]
    while seen[-1].get("seq") != until_seq:
        seen.append(wire.read())
    return [one["seq"] for one in seen if "kind" in one]


class Feed:
    """Server-sent events over HTTP, of a client that comes back when it is cut off."""

    def __init__(self, daemon: Daemon) -> None:
        web = daemon.ask("stats")["web"]
        self._place = urlsplit(web["url"])
        self._token = Path(web["tokenFile"]).read_text().strip()
        self._last = ""
        self.seen: list[int] = []

    def read(self, until_seq: int) -> list[int]:
        while not self.seen or self.seen[-1] < until_seq:
            assert self._place.hostname is not None
            connection = HTTPConnection(self._place.hostname, self._place.port, timeout=60)
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "text/event-stream"}
            if self._last:
                headers["Last-Event-ID"] = self._last
            connection.request("GET", "/api/events?after=start", headers=headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            while (row := response.readline()) and (not self.seen or self.seen[-1] < until_seq):
                if row.startswith(b"id:"):
                    self._last = row[3:].strip().decode()
                elif row.startswith(b"data:") and b'"kind"' in row:
                    self.seen.append(json.loads(row[5:])["seq"])
            connection.close()
        return self.seen


# -- stopped processes -----------------------------------------------------------------------------------------------


def test_stopped_daemon_delays_nobody_and_loses_nothing(place: Place) -> None:
    settings = ["suspend_timeout = 2.0", *WEB, f"token_file = '{place.folder / 'token'}'", "patience = 0.5"]
    with place.serving(*settings) as daemon, place.start(*ECHO) as run:
        echo(run, range(20))
        until(lambda: lines_of(daemon) == [list(range(20))])
        feed = Feed(daemon)
        with Wire(place.socket) as wire:
            wire.send("subscribe", after="start")
            stop(daemon.process)
            began, slowest, printed = time.monotonic(), 0.0, 20
            finished = place.run(*prints(20))
            while printed < 200 or time.monotonic() - began < LASTS:
                asked = time.monotonic()
                echo(run, range(printed, printed + 1))
                slowest = max(slowest, time.monotonic() - asked)
                printed += 1
                time.sleep(LASTS / 200)  # an agent, not a flood: the publisher is to deliver all of it afterwards
            resume(daemon.process)
            echo(run, range(printed, printed + 10))
            until(lambda: list(range(printed + 10)) in lines_of(daemon))  # else the tap may say that lines wait
            assert run.end()[:2] == (0, b"")

            daemon.wait_until_ended(2)
            assert (finished.returncode, len(finished.stdout.splitlines())) == (0, 20)
            assert sorted(lines_of(daemon), key=len) == [list(range(20)), list(range(printed + 10))]
            journal = daemon.events()
            assert seqs(wire, journal[-1]["seq"]) == [one["seq"] for one in journal]
            assert feed.read(journal[-1]["seq"]) == [one["seq"] for one in journal]
    assert slowest < 1.0


def test_suspended_machine_goes_on_where_it_was(place: Place) -> None:
    """Everything stops, and when it continues the clock is eight hours ahead."""
    with shifted(place, "suspend_timeout = 3.0") as (daemon, log, ahead), ExitStack() as stack:
        run = stack.enter_context(place.start(*ECHO))
        tail = stack.enter_context(start("tail", "--mode", "json", "--after", "start", "--socket", place.socket))
        echo(run, range(20))
        until(lambda: lines_of(daemon) == [list(range(20))])
        stop(run, tail, daemon.process)
        ahead.write_text(str(8 * HOUR))
        resume(daemon.process, tail, run)

        echo(run, range(20, 40))
        until(lambda: lines_of(daemon) == [list(range(40))])
        until(lambda: len(log.entries(JUMPED)) == 1)
        assert run.end()[:2] == (0, b"")
        daemon.wait_until_ended(1)
        events = daemon.events()
        assert not [one for one in events if one.get("synthetic")]
        assert [json.loads(tail.line())["seq"] for _ in events] == [one["seq"] for one in events]


# -- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [5, -5, 24 * 400] if IS_LONG else [24 * 400])
def test_clock_that_is_set_closes_and_deletes_nothing(hours: int, place: Place) -> None:
    settings = ["suspend_timeout = 6.0", "retention_interval = 0.05", "retention_days = 30"]
    with shifted(place, *settings) as (daemon, log, ahead), place.start(*ECHO) as run:
        assert place.run(*prints(10)).returncode == 0
        daemon.wait_until_ended(1)
        with Wire(place.socket) as wire:  # a publisher that goes, and comes back
            wire.send("ingest", stream="s", framing="tapped", dialect="claude-stream")
            wire.write(b'{"line":"{\\"n\\":0}"}\n')
            wire.until("ack")
        until(lambda: daemon.ask("stats")["streams"]["suspended"] == 1)
        echo(run, range(10))
        until(lambda: len(daemon.journal()) == 3)
        before = daemon.events()
        ahead.write_text(str(hours * HOUR))
        until(lambda: len(log.entries(JUMPED)) == 1)
        assert log.entries(JUMPED)[0]["jump"] == f"{abs(hours):.1f} hours {'ahead' if hours > 0 else 'back'}"
        echo(run, range(10, 20))
        until(lambda: [*range(20)] in lines_of(daemon))
        ahead.write_text("0")
        until(lambda: len(log.entries(JUMPED)) == 2)
        with Wire(place.socket) as wire:
            wire.send("ingest", stream="s", framing="tapped", dialect="claude-stream")
            assert wire.until("ingesting")[-1]["state"] == "suspended"
            wire.write(b'{"line":"{\\"n\\":1}"}\n{"op":"end"}\n')
            wire.until("done")

        assert run.end()[:2] == (0, b"")
        daemon.wait_until_ended(3)
        events = daemon.events()
        assert events[: len(before)] == before
        assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
        assert sorted(lines_of(daemon), key=len) == [[0, 1], [*range(10)], [*range(20)]]


# -- disks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    require("mount", "umount")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No byte is left meanwhile."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (65_536, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    yield
    (disk / "filler").unlink()


def test_full_disk_loses_nothing_and_keeps_nobody_busy(disk: Path, tmp_path: Path) -> None:
    place = Place(disk)
    place.socket = tmp_path / "s.sock"
    with place.serving() as daemon, place.start(*ECHO) as run:
        log = Log(daemon.process)
        echo(run, range(50))
        until(lambda: lines_of(daemon) == [list(range(50))] and is_indexed(daemon))
        with filled(disk):
            echo(run, range(50, 500))
            until(lambda: "problem" in daemon.ask("stats")["journal"])
            stays_idle(daemon.process.process.pid, run.process.pid)
            problem = daemon.ask("stats")["journal"]["problem"]
            doctor = tooltap("doctor", "--socket", place.socket)
            printed = tooltap("stats", "--socket", place.socket).stdout.decode()
            assert lines_of(daemon) == [list(range(50))]
        echo(run, range(500, 510))
        until(lambda: lines_of(daemon) == [list(range(510))])
        until(lambda: "problem" not in daemon.ask("stats")["journal"])
        assert run.end()[:2] == (0, b"")
        daemon.wait_until_ended(1)
        log.read()

    assert "disk is full" in problem
    assert f"the daemon cannot commit lines: {problem}" in doctor.stdout.decode()
    assert f"; lines cannot be committed: {problem}\n" in printed
    assert len(log.entries("lines cannot be committed; their publishers retain them")) == 1
    assert len(log.entries("lines are committed again")) == 1
    assert "Traceback" not in log.read()
    assert "exception" not in log.read()


def test_trace_on_a_full_disk_is_suspended(disk: Path, place: Place) -> None:
    place.variables |= {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_DIR": str(disk / "traces")}
    with place.serving() as daemon, place.start(*ECHO) as run:
        log = Log(daemon.process)
        with filled(disk):
            echo(run, range(100))
            until(lambda: lines_of(daemon) == [list(range(100))])
            until(lambda: daemon.ask("stats")["trace"]["dropped"] >= 100)
            assert daemon.ask("stats")["trace"]["problem"] == "No space left on device"
            doctor = tooltap("doctor", "--socket", place.socket).stdout.decode()
        assert run.end()[:2] == (0, b"")
        daemon.wait_until_ended(1)
        if IS_LONG:  # it is tried again after a while
            time.sleep(11)
            place.run(*prints(10))
            until(lambda: daemon.ask("stats")["trace"]["problem"] is None)
        log.read()

    assert "cannot be written: No space left on device" in doctor
    assert len(log.entries("trace")) == 1


def test_read_only_file_system_is_one_sentence(disk: Path, tmp_path: Path) -> None:
    place = Place(disk)
    place.socket = tmp_path / "s.sock"
    with place.serving() as daemon:
        place.run(*prints(10))
        daemon.wait_until_ended(1)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.process.wait(60)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    journal = f"sqlite:{disk / 'journal.db'}"
    served = tooltap("serve", "--socket", place.socket, "--journal", journal)
    assert served.returncode == 1
    assert said(served).startswith(f"cannot write to {disk}: Read-only file system; make it writable, or ")
    elsewhere = tooltap("serve", "--socket", disk / "t.sock", "--journal", f"sqlite:{tmp_path / 'j.db'}")
    assert elsewhere.returncode == 1
    assert "Read-only file system" in said(elsewhere)
    finished = place.run(*prints(10))
    assert (finished.returncode, len(finished.stdout.splitlines())) == (0, 10)
    assert said(finished).startswith("10 of 10 lines are lost (the spool cannot be written: Read-only file system)")
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    place.run(*prints(20))
    with place.serving() as daemon:
        daemon.wait_until_ended(2)
        assert sorted(lines_of(daemon), key=len) == [list(range(10)), list(range(20))]


# -- file descriptors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("web", [False, True] if IS_LONG else [False])
def test_too_few_file_descriptors_are_one_sentence(web: bool, place: Place) -> None:
    settings = [*WEB, f"token_file = '{place.folder / 'token'}'"] if web else []
    with place.serving(*settings) as daemon, place.start(*ECHO) as run:
        log = Log(daemon.process)
        echo(run, range(20))
        until(lambda: lines_of(daemon) == [list(range(20))])
        pid = daemon.process.process.pid
        asking = Wire(place.socket)
        asking.read()
        address = urlsplit(asking.ask("stats")["web"]["url"]) if web else None
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), most))
        with ExitStack() as clients:
            for _ in range(10):
                client = clients.enter_context(socket.socket(socket.AF_INET if address else socket.AF_UNIX))
                client.connect((address.hostname, address.port) if address else str(place.socket))
            said = "no connection can be accepted; clients wait"
            until(lambda: len(log.entries(said)) == 1)
            stays_idle(pid)
            if not web:
                assert asking.ask("stats")["connections"]["problem"] == "Too many open files"
            echo(run, range(20, 40))  # open connections continue
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
            until(lambda: len(log.entries("connections are accepted again")) == 1)
        until(lambda: lines_of(daemon) == [list(range(40))])
        assert "problem" not in asking.ask("stats")["connections"]
        asking.close()
        assert run.end()[:2] == (0, b"")
        daemon.wait_until_ended(1)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), most))
        with ExitStack() as clients:
            for _ in range(10):  # the daemon may just have closed a connection that was counted
                clients.enter_context(socket.socket(socket.AF_UNIX)).connect(str(place.socket))
            until(lambda: len(log.entries(said)) == 2)
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.process.process.wait(60) == 0
        log.read()

    assert len(log.entries(said)) == 2
    assert "Traceback" not in log.read()
    assert "exception" not in log.read()
    assert len(log.entries("periodic work failed")) <= 20
