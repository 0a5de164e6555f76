"""Whatever lines a daemon is sent, it answers, delivers, and stops when asked to."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.adversaries import ADVERSARIES, said, start
from tests.daemon.constants import write_settings
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT, Wire
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.inputs import write_tapped

pytestmark = pytest.mark.lab
SCALE = float(os.environ.get("TOOLTAP_STALLS_SCALE", "0.03"))
"""1: the adversaries in full."""
PATIENCE = 600 if SCALE > 0.1 else 2 * TIMEOUT
PING_EVERY = 0.02
LONGEST_PING = 0.1
"""Seconds, in 99 of 100 cases …"""
LONGEST_STOP = 2.0
# … apart from what the machine itself takes, which `CONTROL` shows.
CONTROL = """
import asyncio, sys, time
from tooltap.daemon.system.loop import SECONDS

async def serve():
    async def answer(reader, writer):
        writer.write(b'{"op":"welcome"}\\n')
        while await reader.readline():
            writer.write(b'{"op":"reply","ok":true,"result":{}}\\n')
    await asyncio.start_unix_server(answer, sys.argv[1])
    print(flush=True)
    while True:
        until = time.thread_time() + SECONDS
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0)

asyncio.run(serve())
"""
"""A process that is as busy as the daemon, and does nothing wrong: it answers after each turn."""
SMALL = {"long_bytes": 8_192, "huge_bytes": 131_072}
"""So that lines of every size come, although the adversaries are small."""


def streams() -> dict[str, list[bytes]]:
    """Each adversary, and all of them one after the other."""
    found = {f"s{number}": [start(), *make(SCALE)] for number, make in enumerate(ADVERSARIES.values())}
    return found | {"all": [line for lines in found.values() for line in lines]}


class Pings(threading.Thread):
    """Asks a daemon all the time."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self._wire = Wire(path)
        self._wire.socket.settimeout(PATIENCE)
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        with self._wire as wire:
            wire.read()
            while not self._over.wait(PING_EVERY):
                began = time.perf_counter()
                try:
                    wire.ask("ping")
                except (OSError, AssertionError):  # the daemon has ended
                    return
                self.seconds.append(time.perf_counter() - began)

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE)

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[int(share * (len(self.seconds) - 1))]


@contextmanager
def control(place: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", CONTROL, place], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate()


class Publishing(threading.Thread):
    """Sends what the daemon does not have yet of a stream."""

    def __init__(self, path: Path, stream: str, lines: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.resumed_at = -1
        self.done: dict[str, Any] = {}
        self._path = path
        self._stream = stream
        self._lines = lines
        self.start()

    def run(self) -> None:
        with Wire(self._path) as wire:
            wire.socket.settimeout(PATIENCE)
            wire.send("ingest", stream=self._stream, framing="tapped", dialect="claude-stream")
            self.resumed_at = wire.until("ingesting")[-1]["lines"]
            threading.Thread(target=self._send, args=(wire,), daemon=True).start()
            for line in wire.lines():
                frame = json.loads(line)
                assert frame["op"] != "error", frame
                self.acknowledged = frame.get("lines", 0)
                if frame["op"] == "done":
                    self.done = frame
                    return

    def _send(self, wire: Wire) -> None:
        try:
            for number, line in enumerate(self._lines[self.resumed_at :]):
                wire.write(write_tapped(line, number, None) + b"\n")
            wire.send("end")
        except OSError:  # the daemon has ended
            pass


@contextmanager
def reading_log(daemon: DaemonProcess) -> Iterator[None]:
    thread = threading.Thread(target=lambda: list(iter(daemon._read, None)), daemon=True)
    thread.start()
    yield
    daemon.process.wait(TIMEOUT)
    thread.join(TIMEOUT)


def settings(folder: Path, **values: Any) -> tuple[Path, dict[str, str]]:
    """The configuration file, and variables for the daemon."""
    config = folder / "tooltap.toml"
    return config, write_settings(config, "".join(f"{key} = {value}\n" for key, value in values.items()))


def expected(lines: list[bytes]) -> Counter[str]:
    """The kinds of the events of a stream that nothing has interrupted."""
    normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
    outputs = [one for line in lines for one in normalizer.feed(line, 0)] + normalizer.close("end", 0)
    return Counter(one.kind for one in outputs if isinstance(one, Produced) and not one.partial)


@pytest.mark.timeout(2 * PATIENCE)
def test_a_daemon_serves_and_stops_while_adversaries_publish(tmp_path: Path) -> None:
    lines = streams()
    config, constants = settings(tmp_path, **(SMALL if SCALE < 0.1 else {}))
    with control(tmp_path / "control"):
        with DaemonProcess(tmp_path, "--config", config, **constants) as daemon:
            daemon.wait_ready()
            publishers = [Publishing(daemon.path, stream, one) for stream, one in lines.items()]
            with reading_log(daemon):
                pings, control_pings = Pings(daemon.path), Pings(tmp_path / "control")
                with daemon.connect() as reading, daemon.connect() as writing:
                    reading.send("subscribe", after="start", filter={"stream": ["quiet"], "kind": ["message"]})
                    writing.send("ingest", stream="quiet", framing="raw", dialect="claude-stream")
                    for number in range(5):
                        writing.write(said(number, "seen") + b"\n")
                        while reading.read().get("text") != "seen":
                            pass
                while sum(one.acknowledged for one in publishers) < sum(map(len, lines.values())) / 3:
                    time.sleep(PING_EVERY)
                began = time.perf_counter()
                daemon.process.terminate()
                code = daemon.process.wait(TIMEOUT)
                stopped = time.perf_counter() - began
            for one in publishers:
                one.join(PATIENCE)
            pings.stop()
        assert code == 0
        assert stopped < LONGEST_STOP
        acknowledged = {name: one.acknowledged for name, one in zip(lines, publishers, strict=True)}

        with DaemonProcess(tmp_path, "--config", config, **constants) as daemon:
            daemon.wait_ready()
            with reading_log(daemon):
                pings_again = Pings(daemon.path)
                again = [Publishing(daemon.path, stream, one) for stream, one in lines.items()]
                for one in again:
                    one.join(PATIENCE)
                pings_again.stop()
                control_pings.stop()
                with daemon.connect() as wire:
                    loop = wire.ask("stats")["loop"]
                daemon.process.terminate()

    for name, one in zip(lines, again, strict=True):
        assert one.resumed_at >= acknowledged[name]
        assert one.done["lines"] == len(lines[name])
    stored = sqlite3.connect(tmp_path / "journal.db").execute("SELECT body FROM events").fetchall()
    events = [json.loads(body) for (body,) in stored]
    assert len({one["id"] for one in events}) == len(events)
    for name, sent in lines.items():
        assert Counter(one["kind"] for one in events if one["stream"] == name) == expected(sent), name

    everything = Pings.percentile(pings, 0.99), Pings.percentile(pings_again, 0.99)
    idle_took = control_pings.percentile(0.99)
    print(f"pings: {everything}, idle {idle_took}; stopped in {stopped}; {loop}")
    assert max(everything) < LONGEST_PING + idle_took
    if max(pings_again.seconds) > 0.25 + max(control_pings.seconds):
        assert loop["stalls"]
