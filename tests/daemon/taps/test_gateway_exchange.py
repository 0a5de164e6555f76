"""An exchange becomes lines, or a loss, whatever passes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.daemon.taps.gateway.conversations import Conversations, Place
from tooltap.daemon.taps.gateway.exchange import Exchange, api_of
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Direction

REQUEST = b'{"messages":[{"role":"user","content":"Hi."}],\r\n"stream":true}'


class Kept(Tap):
    """A tap that stores what it gets."""

    def __init__(self) -> None:
        super().__init__(StreamOptions("s"), Path("none.sock"), SpoolLimits(Path()))
        self.told: list[tuple[str, bytes | LongLine | int]] = []

    def put(self, lines: Iterable[bytes | LongLine], direction: Direction, t: int | None = None) -> None:
        self.told += [(direction, line) for line in lines]

    def lose(self, lines: int, size: int, reason: str) -> None:
        self.told.append((reason, size))


class Streams:
    def __init__(self) -> None:
        self.taps: list[Kept] = []
        self.conversations = Conversations(self._begin, most=10)

    def exchange(self, path: str = "/v1/chat/completions", coding: str = "") -> Exchange:
        api = api_of("POST", path)
        assert api is not None
        return Exchange(api, self.conversations, coding, max_line=1_000)

    def _begin(self, dialect: str, place: Place) -> Tap:
        self.taps.append(Kept())
        return self.taps[-1]


@pytest.mark.parametrize(
    ("method", "path", "dialect"),
    [
        ("POST", "/v1/chat/completions", "openai-chat"),
        ("POST", "/openai/deployments/gpt/chat/completions/", "openai-chat"),
        ("POST", "/responses", "openai-responses"),
        ("GET", "/v1/responses", None),
        ("POST", "/v1/responses/resp_1/cancel", None),
        ("POST", "/v1/completions", None),
    ],
)
def test_api_of_path(method: str, path: str, dialect: str | None) -> None:
    api = api_of(method, path)

    assert (api.dialect if api is not None else None) == dialect


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("text/event-stream", [b"data: 1\r", b"\r", b"data: 2"]),
        ("text/plain", [b"data: 1\r", b"\r", b"data: 2"]),
        ("application/json", [b"data: 1    data: 2"]),
    ],
)
def test_streamed_answer_has_lines_and_whole_one_is_a_line(kind: str, lines: list[bytes]) -> None:
    """Some servers send no `Content-Type`, or a wrong one, for a requested stream."""
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, kind, "")
    exchange.response_data(3, b"data: 1\r\n\r\nda")
    exchange.response_data(3, b"ta: 2")
    exchange.finished(4, 0, 0, "")

    [tap] = streams.taps
    assert tap.told == [("in", REQUEST.replace(b"\r\n", b"  ")), *(("out", line) for line in lines)]


@pytest.mark.parametrize("coding", ["gzip", "X-GZIP", "deflate", "br", "zstd", "identity", "br, gzip"])
def test_bodies_are_decoded_incrementally(coding: str) -> None:
    encode = {
        "gzip": gzip.compress,
        "X-GZIP": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
        "zstd": zstandard.ZstdCompressor().compress,
        "identity": bytes,
        "br, gzip": lambda data: gzip.compress(brotli.compress(data)),
    }[coding]
    streams = Streams()
    exchange = streams.exchange(coding=coding)
    exchange.request_data(1, encode(b"{}"))
    exchange.request_complete(1)
    exchange.response_started(2, "text/event-stream", coding)
    for byte in encode(b"data: 1\ndata: 2\n"):
        exchange.response_data(3, bytes([byte]))
    exchange.finished(4, 0, 0, "")

    assert streams.taps[0].told == [("in", b"{}"), ("out", b"data: 1"), ("out", b"data: 2")]


def test_early_answer_comes_after_request() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST[:10])
    exchange.response_started(2, "application/json", "")
    exchange.response_data(3, b"{}")
    exchange.finished(4, 0, 0, "")

    assert streams.taps[0].told == [("in", REQUEST[:10]), ("out", b"{}")]


def test_cut_exchange_loses_unfinished_line() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, "text/event-stream", "")
    exchange.response_data(3, b"data: 1\ndata: ")
    exchange.cut(4)
    exchange.finished(5, 2, 30, "why")
    assert streams.taps[0].told[1:] == [("out", b"data: 1"), ("why", 30)]
    other = streams.exchange()
    other.request_data(1, REQUEST[:10])
    other.cut(1)
    other.request_complete(1)
    other.finished(5, 1, 20, "why")

    assert streams.taps[1].told == [("why", 20)]


def test_incomplete_request_is_ignored() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST[:10])
    exchange.finished(2, 0, 0, "")

    assert streams.taps == []


KEYS = [
    "choices",
    "delta",
    "message",
    "index",
    "content",
    "text",
    "tool_calls",
    "function",
    "name",
    "id",
    "role",
    "type",
]
KEYS += ["messages", "input", "output", "response", "item", "object", "previous_response_id", "call_id"]

plain: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, 1, "assistant", "message", "response", "x", [], {}, [1]]
)
objects = st.dictionaries(st.sampled_from(KEYS), plain, max_size=4)
nested = st.dictionaries(st.sampled_from(KEYS), plain | objects | st.lists(objects, max_size=2), max_size=4)
nonsense = st.binary(max_size=60) | nested.map(lambda value: json.dumps(value).encode())


@given(
    path=st.sampled_from(["/chat/completions", "/responses"]),
    kind=st.sampled_from(["text/event-stream", "application/json", ""]),
    codings=st.tuples(*[st.sampled_from(["", "gzip", "deflate", "br", "zstd", "x", "br, gzip", ","])] * 2),
    bodies=st.tuples(nonsense, st.lists(nonsense, max_size=4)),
)
def test_damaged_exchanges_are_tolerated(
    path: str, kind: str, codings: tuple[str, str], bodies: tuple[bytes, list[bytes]]
) -> None:
    streams = Streams()
    exchange = streams.exchange(path, codings[0])
    exchange.request_data(1, bodies[0])
    exchange.request_complete(1)
    exchange.response_started(2, kind, codings[1])
    for body in bodies[1]:
        exchange.response_data(3, b"data: " + body + b"\n")
    exchange.finished(4, 0, 0, "")

    assert all(not conversation.busy for conversation in streams.conversations._open)
