"""A real daemon on a real socket in a thread of its own, and plain `socket` code that talks to it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.daemon.constants import assigned, split
from tooltap.daemon.app import Daemon
from tooltap.daemon.client.discovery import connect
from tooltap.daemon.config import load_config
from tooltap.daemon.journal.interface import Commit
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.replies import RESULTS

TIMEOUT = 30


class Wire:
    """A connection to the daemon on a plain socket, without the client library."""

    def __init__(self, path: Path, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            connect(self.socket, str(path))
        except OSError:
            self.socket.close()
            raise
        self._file = self.socket.makefile("rb")

    def send(self, op: str, **arguments: Any) -> None:
        self.write(json.dumps({"op": op, **arguments}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        """Read the next line; empty at the end of the connection."""
        return self._file.readline()

    def read(self) -> dict[str, Any]:
        line = self.line()
        assert line, "the daemon closed the connection"
        value: dict[str, Any] = json.loads(line)
        return value

    def until(self, op: str) -> list[dict[str, Any]]:
        """Return all frames up to the next one with this op, which comes last."""
        read = [self.read()]
        while read[-1].get("op") != op:
            read.append(self.read())
        return read

    def lines(self) -> Iterator[bytes]:
        """Yield all lines until the connection ends, however it ends; the last line may be torn."""
        try:
            yield from self._file
        except ConnectionError:
            return

    def rest(self) -> list[dict[str, Any]]:
        """Return all frames until the connection ends."""
        return [json.loads(line) for line in self._file]

    def ask(self, op: str, **arguments: Any) -> Any:
        """Send a request, and return its result."""
        self.send(op, id="ask", **arguments)
        reply = self.until("reply")[-1]
        assert reply["ok"], reply
        if op in RESULTS:  # the struct is all that clients know of a result
            assert msgspec.to_builtins(msgspec.convert(reply["result"], RESULTS[op])) == reply["result"]
        return reply["result"]

    def finish(self) -> None:
        """Close the sending half."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Running:
    def __init__(self, daemon: Daemon, portal: BlockingPortal) -> None:
        self.daemon = daemon
        self.path = daemon.config.socket_path
        self._portal = portal
        self._wires: list[Wire] = []

    def commit(self, *commits: Commit) -> None:
        """Write to the journal as the ingest side does."""
        for commit in commits:
            commit.info.updated = commit.info.updated or wall_clock()
            self._portal.call(self.daemon.journal.commit, commit)

    def call(self, function: Callable[[], Any]) -> None:
        """Run a function in the daemon's event loop."""
        self._portal.call(function)

    def until_indexed(self) -> None:
        """Wait until a search finds everything that is committed now."""
        deadline = time.monotonic() + TIMEOUT
        with self.connect() as wire:
            while True:
                found = wire.ask("stats")
                if self._is_indexing() and found["search"]["upto"] >= found["journal"]["latest"]:
                    return
                assert time.monotonic() < deadline, found["search"]
                time.sleep(0.02)

    def _is_indexing(self) -> bool:
        indexer = self.daemon._search._indexer
        return indexer is not None and indexer.path is not None

    def expire(self, before: int, max_bytes: int | None = None) -> int:
        return self._portal.call(self.daemon.journal.expire, before, max_bytes)

    def connect(self, **options: Any) -> Wire:
        """Open a connection, and read the greeting."""
        wire = Wire(self.path, **options)
        self._wires.append(wire)
        assert wire.read()["op"] == "welcome"
        return wire

    def subscribe(self, **arguments: Any) -> Wire:
        """Open a subscription, and wait until it is confirmed."""
        wire = self.connect()
        wire.send("subscribe", **arguments)
        assert wire.read()["op"] == "subscribed"
        return wire

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def stats(self) -> dict[str, Any]:
        with self.connect() as wire:
            statistics: dict[str, Any] = wire.ask("stats")
            return statistics


@contextmanager
def running(directory: Path, **settings: Any) -> Iterator[Running]:
    """Run a daemon whose files are in `directory`; `settings`: keys of its configuration, and constants of its
    modules."""
    places = {
        "socket": str(directory / "run" / "t.sock"),
        "journal": str(directory / "journal.db"),
        "settle_timeout": 1e9,
        "retention_days": 0,  # tests commit sessions of 1970
    }
    settings, constants = split(settings)
    config = load_config(None, **{**places, **settings})
    ready = threading.Event()
    with assigned(constants), start_blocking_portal("asyncio") as portal:
        daemon = portal.call(Daemon, config)
        future = portal.start_task_soon(daemon.run, ready.set)
        future.add_done_callback(lambda _: ready.set())
        ready.wait(TIMEOUT)
        if future.done():
            future.result()
        served = Running(daemon, portal)
        try:
            yield served
        finally:
            served.close()
            portal.call(daemon.stop)
            future.result(TIMEOUT)
