"""Publishes recorded streams with plain sockets: `python tests/publish.py SOCKET STREAM=FRAMING=FILE…`.

All streams are open at once and sent alternately, a chunk at a time. Prints `ready` when the daemon has accepted all of
them, starts when it receives a line on stdin, and prints the `done` frames. It imports nothing from tooltap, like a
program in another language.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

CHUNK = 3_000
"""Bytes of a chunk; a chunk may end anywhere in a line."""


def publish(path: str, stream: str, framing: str, data: bytes) -> Iterator[str]:
    """Yield "" when the stream is open and after each chunk, and the `done` frame last."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r", encoding="utf-8") as frames:
        connection.connect(path)
        connection.sendall(json.dumps({"op": "ingest", "stream": stream, "framing": framing}).encode() + b"\n")
        while json.loads(frames.readline())["op"] != "ingesting":
            pass
        yield ""
        if framing == "tapped":
            data = data.removesuffix(b"\n") + b'\n{"op":"end"}\n'
        for start in range(0, len(data), CHUNK):
            connection.sendall(data[start : start + CHUNK])
            yield ""
        connection.shutdown(socket.SHUT_WR)
        while json.loads(line := frames.readline())["op"] != "done":
            pass
        yield line


def main(path: str, *arguments: str) -> None:
    streams = []
    for argument in arguments:
        name, framing, file = argument.split("=", 2)
        streams.append(publish(path, name, framing, Path(file).read_bytes()))
    for one in streams:
        next(one)
    print("ready", flush=True)
    sys.stdin.readline()
    while streams:
        steps = [(one, next(one, None)) for one in streams]
        sys.stdout.writelines(frame for _, frame in steps if frame)
        streams = [one for one, frame in steps if frame is not None]


if __name__ == "__main__":
    main(*sys.argv[1:])
