"""A subscriber that is killed: `python -m tests.storm.readers OPTIONS`, the arguments of `Reader` as JSON.

It writes down what it has received before it reads on: the `seq` and the checksum of each event, each gap, and
positions. When it is started again it resumes after what it has written. With `raw`, it also stores the lines.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

__all__ = ["Received", "plain", "received"]

ROW = struct.Struct("<cQQ")
EVENT, GAP, FAULTY_GAP, POSITION, MISSING = b"e", b"g", b"x", b"p", b"m"
TIMEOUT = 60
BLOCK = 262_144


class Received(NamedTuple):
    """What a subscriber has written down."""

    events: list[tuple[int, int]]
    """`seq` and CRC-32 of the line, in the order of arrival."""
    gaps: list[tuple[int, int]]
    """From and to, of reason `retention`."""
    faulty: list[tuple[int, int]]
    """Gaps for another reason."""
    position: int
    missing: tuple[tuple[int, int], ...] = ()
    """From and to, in the numbers of the remote: what its reader says to be missing."""


def received(record: Path) -> Received:
    found = Received([], [], [], 0)
    position = 0
    missing = []
    data = record.read_bytes() if record.exists() else b""
    for kind, first, second in ROW.iter_unpack(data[: len(data) - len(data) % ROW.size]):
        if kind == EVENT:
            found.events.append((first, second))
            position = first
        elif kind in (GAP, FAULTY_GAP):
            (found.gaps if kind == GAP else found.faulty).append((first, second))
        elif kind == MISSING:
            missing.append((first, second))
        else:
            position = first
    return found._replace(position=position, missing=tuple(missing))


def position(record: Path) -> int:
    """Up to where a subscriber misses nothing."""
    size = record.stat().st_size if record.exists() else 0
    with record.open("rb") if size >= ROW.size else open(os.devnull, "rb") as file:
        at = size - size % ROW.size
        while at:
            at -= ROW.size
            file.seek(at)
            kind, first, _ = ROW.unpack(file.read(ROW.size))
            if kind in (EVENT, POSITION):
                return int(first)
    return 0


def plain(line: bytes, remote: str = "") -> bytes:
    """An event without its `seq`; of a remote, as its own daemon has it."""
    body = line[line.index(b",") :]
    if remote:
        name = remote.encode()
        body = body.replace(b',"host":"%b"' % name, b"").replace(b'"%b/' % name, b'"')
    return body


class Reader:
    """`door`: `socket` or `http`; `place`: its path, or its port; `token`: file with the token of `http`; `slow`:
    seconds to sleep after each block; `raw`: file for the lines; `remote`: it writes down the checksums of what this
    remote has, and what is missing of it."""

    def __init__(
        self,
        door: str,
        place: str,
        record: str,
        filter: dict[str, list[str]],  # noqa: A002 -- the key's name on the wire
        slow: float,
        token: str,
        host: str,
        raw: str,
        remote: str = "",
    ) -> None:
        self._lines = self._socket_lines if door == "socket" else self._http_lines
        self._place = place
        self._filter = filter
        self._slow = slow
        self._token = Path(token)
        self._host = host
        self._remote = remote
        file = Path(record)
        self._raw = os.open(raw, os.O_RDWR | os.O_CREAT, 0o600) if raw else -1
        self._record = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._record, os.fstat(self._record).st_size // ROW.size * ROW.size)
        os.lseek(self._record, 0, os.SEEK_END)
        if raw:
            os.lseek(self._raw, 0, os.SEEK_END)
        self._at = position(file)
        """Where it resumes. From 0 the daemon names what is deleted, which it does not from `start`."""

    def run(self) -> None:
        while True:
            try:
                for block in self._lines():
                    self.take(block)
                    if self._slow:
                        time.sleep(self._slow)
            except (OSError, http.client.HTTPException, EOFError):
                pass
            time.sleep(0.1)

    def take(self, block: list[bytes]) -> None:
        rows, raw = [], []
        for line in block:
            if line.startswith(b'{"seq":'):
                seq = int(line[7 : line.index(b",", 7)])
                rows.append(self._row(seq, line))
                raw.append(line)
                self._at = seq
            elif line:
                self._control(json.loads(line), rows)
        if self._raw >= 0:
            os.write(self._raw, b"".join(one + b"\n" for one in raw))
        if rows:
            os.write(self._record, b"".join(rows))

    def _row(self, seq: int, line: bytes) -> bytes:
        if not self._remote:
            return ROW.pack(EVENT, seq, zlib.crc32(line))
        if b'"stream":"%b/"' % self._remote.encode() in line:
            data = json.loads(line)["data"]
            kind = MISSING if data["reason"] == "retention" else FAULTY_GAP
            return ROW.pack(kind, data.get("from", 0), data.get("to", 0)) + ROW.pack(POSITION, seq, 0)
        return ROW.pack(EVENT, seq, zlib.crc32(plain(line, self._remote)))

    def _control(self, frame: dict[str, Any], rows: list[bytes]) -> None:
        match frame.get("op"):
            case "gap":
                kind = GAP if frame["reason"] == "retention" else FAULTY_GAP
                rows.append(ROW.pack(kind, frame["from"], frame["to"]))
            case "live" | "at" if frame["seq"] > self._at:
                rows.append(ROW.pack(POSITION, frame["seq"], 0))
                self._at = frame["seq"]
            case "error":
                raise EOFError

    def _socket_lines(self) -> Iterator[list[bytes]]:
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.settimeout(TIMEOUT)
            daemon.connect(self._place)
            subscribe = {"op": "subscribe", "after": self._at, "filter": self._filter}
            daemon.sendall(json.dumps(subscribe).encode() + b"\n")
            rest = b""
            while data := daemon.recv(BLOCK):
                *whole, rest = (rest + data).split(b"\n")
                yield whole

    def _http_lines(self) -> Iterator[list[bytes]]:
        connection = http.client.HTTPConnection("127.0.0.1", int(self._place), timeout=TIMEOUT)
        query = urlencode({"after": self._at, **self._filter}, doseq=True)
        headers = {"Authorization": f"Bearer {self._token.read_text().strip()}", "Accept": "text/event-stream"}
        try:
            connection.request("GET", f"/api/events?{query}", headers={**headers, "Host": self._host})
            response = connection.getresponse()
            if response.status != 200:
                raise EOFError
            rest = b""
            while data := response.read1(BLOCK):
                *whole, rest = (rest + data).split(b"\n\n")
                messages = [row[6:] for one in whole for row in one.split(b"\n") if row.startswith(b"data: ")]
                yield [one for one in messages if not one.startswith(b'{"op":"heartbeat"')]
        finally:
            connection.close()


def main() -> None:
    Reader(**json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
