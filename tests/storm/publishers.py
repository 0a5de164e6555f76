"""A publisher that is killed: `python -m tests.storm.publishers OPTIONS`, the arguments of `Publisher` as JSON.

It publishes one stream after another, and writes what is acknowledged to a file before it reads on. When it is started
again it continues, as `docs/how-to/publish.md` says. SIGTERM: it ends its stream, and stops.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.storm.agents import length, line

__all__ = ["Published", "published"]

BATCH = 100
WINDOW = 2_000
"""Lines that may be unacknowledged."""
TIMEOUT = 30
EXPECTED = {"journal", "superseded"}
"""Codes of errors that a fault explains."""


class Published(NamedTuple):
    """What a publisher knows of a stream."""

    session: int
    total: int
    acked: int
    """Lines that the daemon has acknowledged."""
    ended: bool


def published(record: Path) -> tuple[dict[int, Published], list[str]]:
    """What a publisher has written down: its streams, by their sessions, and what was wrong."""
    found: dict[int, Published] = {}
    wrong = []
    for row in record.read_bytes().splitlines() if record.exists() else []:
        try:
            value = json.loads(row)
        except ValueError:  # torn: killed while it wrote
            continue
        if "wrong" in value:
            wrong.append(value["wrong"])
        else:
            one = Published(**value)
            found[one.session] = one
    return found, wrong


class Publisher:
    def __init__(self, path: str, record: Path, first: int, seed: int, rate: float) -> None:
        self._path = path
        self._seed = seed
        self._pause = BATCH / rate
        known, _ = published(record)
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._record, b"\n")  # after a torn row
        self._session = max(known, default=first)
        self._acked = known[self._session].acked if known else 0
        if known and known[self._session].ended:
            self._next()
        self._stopping = False
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stopping", True))

    def run(self) -> None:
        while True:
            try:
                self._publish()
            except (OSError, EOFError):
                time.sleep(0.1)
                continue
            if self._stopping:
                return
            self._next()

    def _next(self) -> None:
        self._session += 1
        self._acked = 0

    def _write(self, **value: Any) -> None:
        os.write(self._record, json.dumps(value).encode() + b"\n")

    def _note(self, *, ended: bool = False) -> None:
        total = length(self._seed, self._session)
        self._write(session=self._session, total=total, acked=self._acked, ended=ended)

    def _publish(self) -> None:
        """Publish the rest of the stream. Raises `OSError` and `EOFError` if it is cut off."""
        total = length(self._seed, self._session)
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.settimeout(TIMEOUT)
            daemon.connect(self._path)
            frames = _frames(daemon)
            ingest = {"op": "ingest", "stream": f"p{self._session}", "framing": "tapped", "dialect": "claude-stream"}
            daemon.sendall(json.dumps(ingest).encode() + b"\n")
            sent = self._until(frames, "ingesting")["lines"]
            if sent < self._acked:
                self._write(wrong=f"{self._acked} lines of p{self._session} were acknowledged, {sent} are stored")
            self._take(sent)
            while sent < total:
                began = time.monotonic()
                batch = range(sent + 1, min(sent + BATCH, total) + 1)
                now = time.time_ns() // 1_000_000
                tapped = [b'{"t":%d,"line":%b}\n' % (now, line(self._session, at, total)) for at in batch]
                try:
                    daemon.sendall(b"".join(tapped))
                except BrokenPipeError:
                    self._until(frames, "done")  # the last frame says why
                sent = batch[-1]
                while sent - self._acked > WINDOW:
                    self._take(self._until(frames, "ack")["lines"])
                time.sleep(max(0.0, 0 if self._stopping else self._pause - (time.monotonic() - began)))
            daemon.sendall(b'{"op":"end"}\n')
            self._take(self._until(frames, "done")["lines"])
        if self._acked != total:
            self._write(wrong=f"p{self._session} has {total} lines, and {self._acked} are stored at its end")
        self._note(ended=True)

    def _take(self, acked: int) -> None:
        if acked > self._acked:
            self._acked = acked
            self._note()

    def _until(self, frames: Iterator[dict[str, Any]], op: str) -> dict[str, Any]:
        for frame in frames:
            if frame["op"] == op:
                return frame
            if frame["op"] == "ack":
                self._take(frame["lines"])
            if frame["op"] == "error":
                if frame["code"] not in EXPECTED:
                    self._write(wrong=f"p{self._session}: {frame['code']}: {frame['message']}")
                raise EOFError
        raise EOFError


def _frames(daemon: socket.socket) -> Iterator[dict[str, Any]]:
    rest = b""
    while data := daemon.recv(65_536):
        *whole, rest = (rest + data).split(b"\n")
        yield from map(json.loads, whole)


def main() -> None:
    options = json.loads(sys.argv[1])
    options["record"] = Path(options["record"])
    Publisher(**options).run()


if __name__ == "__main__":
    main()
