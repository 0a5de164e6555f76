"""`python -m tests.bench.processes.readers [--stamps] SOCKET COUNT [FRAME]`: subscribers, read by one loop.

With FRAME, each subscriber sends it and is ready after the `live` frame. The result is the number of bytes received
from then on; with `--stamps` also the age of each `@<ns>@` in the received data, in nanoseconds of the machine's
monotonic clock.
"""

from __future__ import annotations

import argparse
import json
import re
import selectors
import socket
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.bench.processes.children import Child

__all__ = ["readers"]

RECEIVE_BYTES = 262_144
LIVE = b'"op":"live"'
STAMP = re.compile(rb"@(\d+)@")


def readers(path: Path, count: int, *, frame: Mapping[str, object] | None = None, stamps: bool = False) -> Child:
    """Start the process. Its result is `[bytes, [nanoseconds…]]`."""
    options = ["--stamps"] if stamps else []
    return Child("readers", *options, path, count, *([] if frame is None else [json.dumps(frame)]))


def read(path: str, count: int, frame: str | None, stamps: bool) -> None:
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            selector.register(_connect(path, frame), selectors.EVENT_READ)
        print("ready", flush=True)
        received = 0
        nanoseconds: list[int] = []
        unfinished: defaultdict[socket.socket, bytes] = defaultdict(bytes)
        buffer = memoryview(bytearray(RECEIVE_BYTES))
        while selector.get_map():
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                size = key.fileobj.recv_into(buffer)
                if stamps:
                    now = time.monotonic_ns()
                    lines, _, unfinished[key.fileobj] = (unfinished[key.fileobj] + buffer[:size]).rpartition(b"\n")
                    nanoseconds += [now - int(stamp) for stamp in STAMP.findall(lines)]
                received += size
                if not size:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    print(json.dumps([received, nanoseconds]))


def _connect(path: str, frame: str | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    if frame is not None:
        connection.sendall(frame.encode() + b"\n")
        greeting = b""
        while LIVE not in greeting:
            greeting += connection.recv(RECEIVE_BYTES)
    return connection


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("count", type=int)
    parser.add_argument("frame", nargs="?")
    parser.add_argument("--stamps", action="store_true")
    arguments = parser.parse_args()
    read(arguments.path, arguments.count, arguments.frame, arguments.stamps)
