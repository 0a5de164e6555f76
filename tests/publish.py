"""Publishes recorded streams with nothing but sockets: `python tests/publish.py SOCKET STREAM=FRAMING=FILE…`.

All streams of one call are open at once and sent in turns, a piece at a time. Prints `ready` when the daemon has
answered for each, begins when it is sent a line, and prints the `done` frames. It imports nothing of tooltap, as a
program in another language would not.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

PIECE = 3_000
"""Bytes: lines are cut anywhere."""


def publish(path: str, stream: str, framing: str, data: bytes) -> Iterator[str]:
    """Stops when the stream is open, and then after each piece; gives the `done` frame last."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r", encoding="utf-8") as frames:
        connection.connect(path)
        connection.sendall(json.dumps({"op": "ingest", "stream": stream, "framing": framing}).encode() + b"\n")
        while json.loads(frames.readline())["op"] != "ingesting":
            pass
        yield ""
        if framing == "tapped":
            data = data.removesuffix(b"\n") + b'\n{"op":"end"}\n'
        for start in range(0, len(data), PIECE):
            connection.sendall(data[start : start + PIECE])
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
        pieces = [(one, next(one, None)) for one in streams]
        sys.stdout.writelines(said for _, said in pieces if said)
        streams = [one for one, said in pieces if said is not None]


if __name__ == "__main__":
    main(*sys.argv[1:])
