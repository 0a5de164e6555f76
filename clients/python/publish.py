"""Publish the lines of a file, each exactly once, although this program or the daemon may be killed at any moment.

`python publish.py FILE STREAM SOCKET`
"""

import json
import socket
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE, STREAM, SOCKET = Path(sys.argv[1]), sys.argv[2], sys.argv[3]


def frames_until(op: str, frames: Iterator[bytes]) -> dict[str, Any]:
    for line in frames:
        frame: dict[str, Any] = json.loads(line)
        if frame["op"] == op:
            return frame
        if frame["op"] == "error":
            raise ConnectionError(frame["message"])
    raise ConnectionError("the daemon is gone")


def publish() -> None:
    with socket.socket(socket.AF_UNIX) as daemon, FILE.open("rb") as lines:
        daemon.connect(SOCKET)
        frames = daemon.makefile("rb")
        ingest = {"op": "ingest", "stream": STREAM, "framing": "tapped"}
        daemon.sendall(json.dumps(ingest).encode() + b"\n")
        known = frames_until("ingesting", frames)
        for number in range(1, known["lines"] + 1):  # the daemon has these
            line = lines.readline().rstrip(b"\n")
            if number == known.get("crcLine") and f"{zlib.crc32(line):08x}" != known["crc"]:
                sys.exit(f"stream {STREAM} has lines of another file")
        for line in lines:
            daemon.sendall(json.dumps({"line": line.rstrip(b"\n").decode()}).encode() + b"\n")
        daemon.sendall(b'{"op":"end"}\n')
        print(frames_until("done", frames)["lines"])


while True:
    try:
        publish()
        break
    except OSError as error:
        print(error, file=sys.stderr)
        time.sleep(0.1)
