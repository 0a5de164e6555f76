"""A collector that is killed: `python -m tests.storm.collector OPTIONS`, the arguments of `Collector` as JSON.

It writes down each span before it answers 200. Sometimes it is busy, once in a while for so long that retention deletes
what waits, or it cuts the connection, before or after it has written.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.daemon.export.collector import Seen, spans_in
from tooltap.daemon.telemetry.settings import PATH

__all__ = ["Exported", "exported", "exported_of"]

BUSY, CUT = 0.03, 0.03
"""Share of the requests that are answered 503, and that have no answer: after each, nothing is sent for a second."""
AWAY, SECONDS_AWAY = 0.2, 40.0
"""Share of the lives that begin with nothing but 503, and for how long: what is stored meanwhile exceeds the journal's
size several times on a fast machine."""


class Exported(NamedTuple):
    """A span that a collector has taken."""

    trace: str
    id: str
    parent: str
    """Empty for a root."""
    operation: str
    session: str
    about: str
    """How a turn has ended, the id of a call, the tokens of a request: `INPUT/OUTPUT`."""
    began: int
    ended: int
    """Both in ms since the epoch."""
    failed: bool
    checksum: int
    """Of everything that is in the span; what is known of the agent, its version and project, may become more."""


def exported_of(span: Seen) -> Exported:
    has = span.attributes
    operation = str(has["gen_ai.operation.name"])
    if operation == "chat":
        about = f"{has.get('gen_ai.usage.input_tokens')}/{has.get('gen_ai.usage.output_tokens')}"
    else:
        about = str(has.get("gen_ai.tool.call.id" if operation == "execute_tool" else "tooltap.outcome"))
    content = repr(span._replace(resource={}, attributes=dict(sorted(span.attributes.items()))))
    return Exported(
        span.trace,
        span.id,
        span.parent,
        operation,
        str(has["gen_ai.conversation.id"]),
        about,
        span.began // 1_000_000,
        span.ended // 1_000_000,
        span.failed,
        zlib.crc32(content.encode()),
    )


def exported(record: Path) -> Iterator[Exported]:
    """What a collector has written down, in the order in which it came."""
    with record.open("rb") if record.exists() else open(os.devnull, "rb") as file:
        for row in file:
            try:
                yield Exported(*json.loads(row))
            except (ValueError, TypeError):  # torn: killed while it wrote, and so before it answered
                continue


class Collector:
    def __init__(self, port: int, record: str, seed: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._random = random.Random(f"{seed} {os.fstat(self._record).st_size}")
        os.write(self._record, b"\n")  # after a torn row
        is_away = self._random.random() < AWAY
        self._away_until = time.monotonic() + SECONDS_AWAY if is_away else 0.0

    def run(self) -> None:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = collector.take(body if self.path == PATH else b"")
                if code:
                    self.send_response(code)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        ThreadingHTTPServer(("127.0.0.1", self._port), Handler).serve_forever()

    def take(self, body: bytes) -> int:
        """Take a request, or do not. Returns the code of the answer; 0: the connection is cut."""
        with self._lock:
            chance = self._random.random()
            if chance < BUSY or time.monotonic() < self._away_until:
                return 503
            if chance < BUSY + CUT / 2:
                return 0
            rows = [json.dumps(exported_of(one)).encode() + b"\n" for one in spans_in(body)]
            os.write(self._record, b"".join(rows))
            return 0 if chance < BUSY + CUT else 200


def main() -> None:
    Collector(**json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
