"""Many clients: one that never reads costs bounded memory and delays nobody; departed ones leave nothing behind."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT, Wire
from tests.programs import require
from tooltap.protocol.inputs import write_tapped

READERS = 20
EVENTS = 20_000
WARM_UP = 10_000
"""Events after which SQLite's page caches and the daemon's recent events no longer grow."""
MIB = 1024 * 1024
LINE = "not JSON ".ljust(60, "x")
"""Becomes an event of about 300 bytes."""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[DaemonProcess]:
    settings = tmp_path / "tooltap.toml"
    settings.write_text("scrub_interval = 0\n")  # else one begins after a minute, and SQLite keeps its file open
    with DaemonProcess(tmp_path, "--config", settings) as process:
        yield process.wait_ready()


def resident(process: DaemonProcess) -> int:
    """Bytes of memory."""
    require("ps")
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(process.process.pid)], capture_output=True, check=True)
    return int(told.stdout) * 1024


def publish(process: DaemonProcess, stream: str, lines: int) -> None:
    record = write_tapped(LINE.encode(), 1, "out") + b"\n"
    with process.connect() as wire:
        wire.send("ingest", stream=stream, framing="tapped", dialect="claude-stream")
        wire.write(record * lines)
        wire.send("end")
        wire.until("done")


def subscribe(process: DaemonProcess) -> Wire:
    wire = process.connect()
    wire.send("subscribe", after="now")
    wire.until("live")
    return wire


def take(wires: list[Wire], events: int) -> list[int]:
    """Read from all sockets until each has received so many lines; returns the bytes of each."""
    waiting = selectors.DefaultSelector()
    lines, taken = [0] * len(wires), [0] * len(wires)
    for number, wire in enumerate(wires):
        waiting.register(wire.socket, selectors.EVENT_READ, number)
    while waiting.get_map():
        ready = waiting.select(timeout=30)
        assert ready, "nothing arrives"
        for key, _ in ready:
            data = key.fileobj.recv(MIB)  # type: ignore[union-attr]
            assert data, "the daemon closed the connection"
            taken[key.data] += len(data)
            lines[key.data] += data.count(b"\n")
            if lines[key.data] == events:
                waiting.unregister(key.fileobj)
    waiting.close()
    return taken


def test_subscriber_that_never_reads_delays_nobody(process: DaemonProcess) -> None:
    with ExitStack() as connections:
        stuck = connections.enter_context(subscribe(process))
        readers = [connections.enter_context(subscribe(process)) for _ in range(READERS)]
        publish(process, "warm-up", WARM_UP)
        take(readers, WARM_UP)
        before = resident(process)

        publish(process, "measured", EVENTS)
        taken = take(readers, EVENTS)

        assert resident(process) - before < 16 * MIB
        assert len(set(taken)) == 1
        assert taken[0] > 250 * EVENTS
        # The journal serves what it did not read, at its own pace.
        everything = WARM_UP + EVENTS
        assert [stuck.read()["seq"] for _ in range(everything)] == list(range(1, everything + 1))


@pytest.mark.skipif(sys.platform != "linux", reason="the open files of a process are looked up in /proc")
def test_departed_clients_leave_nothing(process: DaemonProcess) -> None:
    """Some send a request and leave, some vanish during a replay, some while publishing."""
    publish(process, "kept", 2_000)

    def come_and_go(number: int) -> None:
        with process.connect() as wire:
            if number % 3 == 0:
                wire.send("subscribe", after="start", filter={"kind": ["unparsed"]} if number % 2 else {})
                wire.line()
            elif number % 3 == 1:
                wire.send("ingest", stream=f"s{number % 9}", framing="tapped", dialect="claude-stream")
                wire.write(write_tapped(LINE.encode(), 1, "out") + b'\n{"t":1')
                wire.until("ack")  # else the connections of one stream queue up
            else:
                wire.send("stats", id=number)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def settled(wire: Wire) -> int:
        statistics = wire.ask("stats")
        while statistics["connections"] != {"open": 1, "publishing": 0} or statistics["subscribers"]:
            statistics = wire.ask("stats")
        return resident(process)

    def files() -> int:
        return len(os.listdir(f"/proc/{process.process.pid}/fd"))

    for number in range(600):
        come_and_go(number)
    with process.connect() as wire:
        memory, most = settled(wire), files()
    for number in range(1_800):
        come_and_go(number)
    with process.connect() as wire:
        after = settled(wire)
        deadline = time.monotonic() + TIMEOUT
        while files() > most:  # it opens some of its own for a moment
            assert time.monotonic() < deadline, (files(), most)
            time.sleep(0.01)

    assert after - memory < 8 * MIB
