"""Real daemon processes that are killed and restarted, and a publisher and subscribers that survive it.

The processes are forked from a server that has imported the daemon, which saves starting an interpreter for each.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, Self

import orjson

from tests.daemon.constants import assign, split
from tests.daemon.running import TIMEOUT, Wire
from tooltap.daemon.config import load_config
from tooltap.daemon.process import run
from tooltap.daemon.system import failpoints

SUBSCRIBERS = 3

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.daemon.lives", "tooltap.daemon.journal.nats.journal"])


def live(settings: dict[str, Any], environment: dict[str, str], ready: Any) -> None:
    """Run a daemon in the child process, with the failpoint that the environment names."""
    os.environ.update(environment)
    importlib.reload(failpoints)
    settings, constants = split(settings)
    assign(constants)
    run(load_config(None, log_level="error", **settings), lambda: ready.send(True))


class Lives:
    """A journal that one daemon after another serves."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.settings = {
            "settle_timeout": 1e9,
            "socket": str(directory / "run" / "t.sock"),
            "journal": str(directory / "journal.db"),
            **settings,
        }
        self.environment: dict[str, str] = {}
        self.log = directory / "failpoints.log"
        self.died: list[int | None] = []
        """Exit code of each daemon."""
        self.seen: list[list[bytes]] = [[] for _ in range(SUBSCRIBERS)]
        """Event lines that each subscriber has seen. A subscriber resumes by `seq` at the next daemon."""
        self._process: BaseProcess
        self._subscribers: list[Wire] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.join()
        for wire in self._subscribers:
            wire.close()

    def start(self, failpoint: str = "") -> None:
        armed = {"TOOLTAP_FAILPOINT": failpoint, "TOOLTAP_FAILPOINT_LOG": str(self.log)}
        here, there = _processes.Pipe(duplex=False)
        environment = self.environment | armed
        self._process = _processes.Process(target=live, args=(self.settings, environment, there), daemon=True)
        self._process.start()
        there.close()
        assert here.poll(TIMEOUT), "the daemon did not start"
        here.recv()
        here.close()
        self._subscribers = []
        try:
            for seen in self.seen:
                self._subscribers.append(self.connect())
                self._subscribers[-1].send("subscribe", after=json.loads(seen[-1])["seq"] if seen else "start")
        except (Gone, OSError):
            if not failpoint:  # a daemon that is to die may be faster than its subscribers
                raise

    def connect(self) -> Wire:
        """A connection that has been greeted. Raises `Gone`."""
        return greeted(Path(self.settings["socket"]))

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        """Wait until the daemon is dead and its subscribers have read everything sent to them."""
        self._process.join(TIMEOUT)
        self.died.append(self._process.exitcode)
        for wire, seen in zip(self._subscribers, self.seen, strict=False):
            seen += [line for line in wire.lines() if not line.startswith(b'{"op"') and line.endswith(b"\n")]
            wire.close()

    def until_seen(self, count: int) -> None:
        """Wait until each subscriber has seen this many events."""
        for wire, seen in zip(self._subscribers, self.seen, strict=True):
            while len(seen) < count:
                line = wire.line()
                assert line, "the daemon closed the connection"
                if not line.startswith(b'{"op"'):
                    seen.append(line)

    def hits(self) -> list[str]:
        """Return the failpoints at which a daemon died."""
        return self.log.read_text().split() if self.log.exists() else []


class Gone(Exception):
    """The daemon died while the publisher was talking to it."""


def greeted(socket: Path) -> Wire:
    """Return a connection that has been greeted. Raises `Gone`."""
    try:
        wire = Wire(socket)
    except OSError as error:
        raise Gone from error
    try:
        _until(wire, "welcome")
    except Gone:
        wire.close()
        raise
    return wire


class Door(Protocol):
    def connect(self) -> Wire:
        """A connection that has been greeted. Raises `Gone`."""
        ...


class Publisher:
    """Publisher that sends the tapped lines that the daemon does not have yet, then the end."""

    def __init__(self, lives: Door, stream: str, records: list[bytes]) -> None:
        self._lives = lives
        self.stream = stream
        self._records = records
        self.resumed_at: list[int] = []
        self.done: dict[str, Any] = {}

    def publish(self, after_sending: Callable[[int, Wire], None]) -> None:
        """Publish the remaining lines. `after_sending` is called after each line. Raises `Gone`."""
        try:
            with self._lives.connect() as wire:
                wire.send("ingest", stream=self.stream, framing="tapped")
                lines = _until(wire, "ingesting")["lines"]
                self.resumed_at.append(lines)
                for number, record in enumerate(self._records[lines:], lines + 1):
                    wire.write(record + b"\n")
                    after_sending(number, wire)
                wire.send("end")
                self.done = _until(wire, "done")
        except ConnectionError as error:
            raise Gone from error


def wait_for_ack(number: int, wire: Wire) -> None:
    while _until(wire, "ack")["lines"] < number:
        pass


def _until(wire: Wire, op: str) -> dict[str, Any]:
    while line := _line(wire):
        frame: dict[str, Any] = orjson.loads(line)
        assert frame["op"] != "error", frame
        if frame["op"] == op:
            return frame
    raise Gone


def _line(wire: Wire) -> bytes:
    try:
        return wire.line()
    except ConnectionError:
        return b""
