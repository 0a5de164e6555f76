"""`python -m tests.bench.readers SOCKET COUNT [FRAME]`: subscribers in a process of their own, read by one loop.

Each sends FRAME, where there is one, and counts as ready when it has received `AWAITED`. `ready` is printed when all
are; when all connections have ended, what was read as JSON. `--stamps`: also how long each `@<ns>@` in what arrives was
under way, in nanoseconds, on the clock that all processes of a machine share.
"""

from __future__ import annotations

import argparse
import json
import re
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Readers", "Result"]

ROOT = Path(__file__).parent.parent.parent
RECEIVE_BYTES = 262_144
AWAITED = b'"op":"live"'
STAMP = re.compile(rb"@(\d+)@")


class Result(NamedTuple):
    bytes: int
    """Received after `ready`."""
    cpu_seconds: float
    nanoseconds: list[int]


class Readers:
    """The process, from the side of who starts it. `subscribe`: the frame's arguments; None: nothing is sent."""

    def __init__(self, path: Path, count: int, subscribe: dict[str, object] | None, *, stamps: bool = False) -> None:
        frame = [] if subscribe is None else [json.dumps({"op": "subscribe", **subscribe})]
        options = ["--stamps"] if stamps else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.readers", *options, str(path), str(count), *frame],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        if self._line() != b"ready\n":
            self._process.wait()
            raise RuntimeError("the readers did not start")

    def result(self) -> Result:
        """When all connections have ended."""
        line = self._line()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return Result(*json.loads(line))

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def read(path: str, count: int, frame: str | None, stamps: bool) -> None:
    selector = selectors.DefaultSelector()
    for _ in range(count):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        if frame is not None:
            connection.sendall(frame.encode() + b"\n")
            beginning = b""
            while AWAITED not in beginning:
                beginning += connection.recv(RECEIVE_BYTES)
        selector.register(connection, selectors.EVENT_READ)
    print("ready", flush=True)
    cpu, received = time.process_time(), 0
    nanoseconds: list[int] = []
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    while selector.get_map():
        for key, _ in selector.select():
            connection = key.fileobj  # type: ignore[assignment]
            size = connection.recv_into(buffer)
            if stamps:
                now = time.monotonic_ns()
                nanoseconds += [now - int(stamp) for stamp in STAMP.findall(buffer[:size])]
            received += size
            if not size:
                selector.unregister(connection)
                connection.close()
    print(json.dumps([received, time.process_time() - cpu, nanoseconds]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("count", type=int)
    parser.add_argument("frame", nargs="?")
    parser.add_argument("--stamps", action="store_true")
    wanted = parser.parse_args()
    read(wanted.path, wanted.count, wanted.frame, wanted.stamps)
