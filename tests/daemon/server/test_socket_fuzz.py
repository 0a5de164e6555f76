"""Whatever is written to the socket, and wherever it is cut off: the daemon and other clients are unaffected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.daemon.running import Running, Wire, running
from tooltap.protocol.frames import ERROR_CODES

OPS = [
    "subscribe",
    "ingest",
    "sessions",
    "event",
    "files",
    "calls",
    "output",
    "store",
    "stats",
    "end",
    "remove",
    "pin",
    "reread",
    "ping",
    "lost",
    "welcome",
]
KEYS = [
    *("id", "after", "filter", "partials", "follow", "as", "stream", "framing", "dialect", "provider", "session"),
    *("from", "seq", "view", "limit", "before", "outputId", "offset", "length", "unit", "t", "dir", "line", "b64"),
    *("lines", "bytes", "reason", "mimeType", "type", "file"),
]
WORDS = [
    "start",
    "now",
    "raw",
    "tapped",
    "auto",
    "acp",
    "claude-stream",
    "display",
    "events",
    "in",
    "out",
    "",
    "s",
    "x:1",
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([*WORDS, 2**64, -1])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
)
frames = st.builds(
    lambda op, keys: json.dumps({"op": op, **keys}).encode() + b"\n",
    st.sampled_from(OPS) | st.text(max_size=5),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
)
tapped = st.builds(lambda keys: json.dumps(keys).encode() + b"\n", st.dictionaries(st.sampled_from(KEYS), values))
garbage = st.binary(max_size=200) | st.just(b"[" * 5_000 + b"\n") | st.just(b'{"op":"ping"' + b" " * 70_000 + b"}\n")


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Frames and lines of all kinds, some damaged, the end cut off."""
    sent = bytearray(b"".join(draw(st.lists(frames | tapped | garbage, min_size=1, max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        if sent:
            sent[draw(st.integers(0, len(sent) - 1))] = draw(st.integers(0, 255))
    return bytes(sent[: draw(st.integers(1, max(1, len(sent))))])


class Company:
    """A daemon, and a client that subscribes while others write nonsense."""

    def __init__(self, daemon: Running) -> None:
        self.daemon = daemon
        self.watching = daemon.subscribe(after="now", filter={"stream": ["watched"]})
        self.watching.until("live")
        self.publishing = daemon.connect()
        self.publishing.send("ingest", stream="watched", framing="tapped", dialect="claude-stream")
        self.publishing.until("ingesting")
        self.written = 0

    def is_undisturbed(self) -> bool:
        self.written += 1
        text = f"not JSON {self.written}"
        self.publishing.write(json.dumps({"t": 1, "dir": "out", "line": text}).encode() + b"\n")
        acknowledged = self.publishing.until("ack")[-1]["lines"]
        event = self.watching.read()
        while "op" in event:
            event = self.watching.read()
        return bool((event["text"], event["line"], acknowledged) == (text, self.written, self.written))


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with running(tmp_path_factory.mktemp("fuzz"), at_interval=3_600.0) as daemon:
        yield Company(daemon)


def answers(wire: Wire) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in wire.lines() if line.endswith(b"\n"))


@given(sent=conversations(), vanishes=st.booleans())
def test_nonsense_harms_no_other_connection(company: Company, sent: bytes, vanishes: bool) -> None:
    if b'"watched"' in sent:
        return
    with company.daemon.connect() as wire:
        try:
            wire.write(sent)
            wire.finish()
        except OSError:  # the daemon sent an error and closed the connection
            pass
        if not vanishes and b'"subscribe"' not in sent:  # a subscriber is served after the end of its input
            for answer in answers(wire):
                if answer.get("op") == "error":
                    assert answer["code"] in ERROR_CODES
                    assert answer["code"] != "internal"
                    assert answer["message"]
                elif answer.get("op") == "reply" and not answer["ok"]:
                    assert answer["error"]["code"] != "internal"
    assert company.is_undisturbed()
