"""An exchange becomes lines, or a loss, whatever passes."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tooltap.daemon.system.content_coding import PIECE, decoder
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.daemon.taps.gateway.conversations import Conversations, Place
from tooltap.daemon.taps.gateway.exchange import Ended, Exchange, api_of
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Direction

REQUEST = b'{"messages":[{"role":"user","content":"Hi."}],\r\n"stream":true}'


WHOLE, LEFT = Ended("server", complete=True), Ended("client", complete=False)


class Kept(Tap):
    """A tap that stores what it gets."""

    def __init__(self) -> None:
        super().__init__(StreamOptions("s"), Path("none.sock"), SpoolLimits(Path()))
        self.told: list[tuple[str, bytes | LongLine | int]] = []
        self.ends: list[ExchangeEnd] = []

    def put(self, lines: Iterable[bytes | LongLine], direction: Direction, t: int | None = None) -> None:
        for line in lines:
            if isinstance(line, bytes) and (end := ExchangeEnd.read(line)) is not None:
                self.ends.append(end)
            else:
                self.told.append((direction, line))

    def lose(self, lines: int, size: int, reason: str) -> None:
        self.told.append((reason, size))


class Streams:
    def __init__(self) -> None:
        self.taps: list[Kept] = []
        self.conversations = Conversations(self._begin, most=10)

    def exchange(self, path: str = "/v1/chat/completions", coding: str = "", method: str = "POST") -> Exchange:
        api = api_of(method, path)
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
        ("GET", "/v1/responses/resp_1", "openai-responses"),
        ("POST", "/v1/responses/resp_1/cancel", "openai-responses"),
        ("GET", "/v1/responses/resp_1/cancel", None),
        ("POST", "/v1/responses/resp_1", None),
        ("DELETE", "/v1/responses/resp_1", None),
        ("GET", "/v1/responses/resp_1/input_items", None),
        ("POST", "/v1/completions", None),
        ("POST", "/v1/messages", "anthropic-messages"),
        ("POST", "/v1/messages/count_tokens", None),
        ("POST", "/v1/messages/batches", None),
        ("POST", "/v1/threads/t1/messages", None),
        ("POST", "/v1beta/models/gemini-2.5-flash:generateContent", "gemini-api"),
        ("POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent", "gemini-api"),
        ("POST", "/v1internal:streamGenerateContent", "gemini-api"),
        ("POST", "/v1beta/models/gemini-2.5-flash:countTokens", None),
    ],
)
def test_api_of_path(method: str, path: str, dialect: str | None) -> None:
    api = api_of(method, path)

    assert (api.dialect if api is not None else None) == dialect


@pytest.mark.parametrize(
    ("kind", "parts", "lines"),
    [
        ("text/event-stream", [b"data: 1\r\n\r\nda", b"ta: 2"], [b"data: 1", b"data: 2"]),
        ("text/plain", [b"data: 1\r\n\r\nda", b"ta: 2"], [b"data: 1", b"data: 2"]),
        ("application/json", [b'{"a":\r\n', b"1}"], [b'{"a":  1}']),
    ],
)
def test_streamed_answer_has_lines_and_whole_one_is_a_line(kind: str, parts: list[bytes], lines: list[bytes]) -> None:
    """Some servers send no `Content-Type`, or a wrong one, for a requested stream."""
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, 200, kind, "")
    for part in parts:
        exchange.response_data(3, part)
    exchange.finished(4, WHOLE, 0, 0, "")

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
    exchange.response_started(2, 200, "text/event-stream", coding)
    for byte in encode(b"data: 1\ndata: 2\n"):
        exchange.response_data(3, bytes([byte]))
    exchange.finished(4, WHOLE, 0, 0, "")

    assert streams.taps[0].told == [("in", b"{}"), ("out", b"data: 1"), ("out", b"data: 2")]


def raw_deflate(data: bytes) -> bytes:
    """Compress without the header of zlib."""
    one = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return one.compress(data) + one.flush()


PARTS = (b"data: 1\n", b"data: 2\n")
BODIES = {
    "gzip members": ("gzip", gzip.compress(PARTS[0]) + gzip.compress(PARTS[1]), None),
    "gzip padding": ("gzip", gzip.compress(b"".join(PARTS)) + b"\0\0\0", None),
    "zstd frames": ("zstd", b"".join(map(zstandard.ZstdCompressor().compress, PARTS)), None),
    "bare deflate": ("deflate", raw_deflate(b"".join(PARTS)), None),
    "gzip noise": ("gzip", gzip.compress(b"".join(PARTS)) + b"noise", "incorrect header check"),
    "zstd noise": ("zstd", zstandard.ZstdCompressor().compress(b"".join(PARTS)) + b"noise", "Unknown frame"),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("step", [1, 1_000])
def test_body_is_decoded_to_its_end_or_the_loss_is_told(name: str, step: int) -> None:
    coding, body, problem = BODIES[name]
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, 200, "text/event-stream", coding)
    for start in range(0, len(body), step):
        exchange.response_data(3, body[start : start + step])
    exchange.finished(4, WHOLE, 0, 0, "")

    [tap] = streams.taps
    assert tap.told[1:3] == [("out", b"data: 1"), ("out", b"data: 2")]
    told = [words for words, _ in tap.told[3:]]
    assert len(told) == (problem is not None)
    assert all(problem is not None and problem in words for words in told)


@pytest.mark.parametrize("end", [b"", b"noise"])
def test_whole_body_before_bytes_that_cannot_be_decoded_is_read(end: bytes) -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, 200, "application/json", "gzip")
    exchange.response_data(3, gzip.compress(b'{"choices":') + gzip.compress(b"[]}") + end)
    exchange.finished(4, WHOLE, 0, 0, "")

    [tap] = streams.taps
    assert tap.told[1] == ("out", b'{"choices":[]}')
    assert len(tap.told) == 2 + bool(end)
    assert tap.ends[0].body is None


def test_early_answer_comes_after_request() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST[:10])
    exchange.response_started(2, 200, "application/json", "")
    exchange.response_data(3, b"{}")
    exchange.finished(4, WHOLE, 0, 0, "")

    assert streams.taps[0].told == [("in", REQUEST[:10]), ("out", b"{}")]


def test_cut_exchange_loses_unfinished_line() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, 200, "text/event-stream", "")
    exchange.response_data(3, b"data: 1\ndata: ")
    exchange.cut(4)
    exchange.finished(5, WHOLE, 2, 30, "why")
    assert streams.taps[0].told[1:] == [("out", b"data: 1"), ("why", 30)]
    other = streams.exchange()
    other.request_data(1, REQUEST[:10])
    other.cut(1)
    other.request_complete(1)
    other.finished(5, WHOLE, 1, 20, "why")

    assert streams.taps[1].told == [("why", 20)]
    assert [end.unread for tap in streams.taps for end in tap.ends] == [30, 20]


def polled(streams: Streams, response_id: str, status: int, body: bytes) -> None:
    exchange = streams.exchange(f"/v1/responses/{response_id}", method="GET")
    exchange.response_started(5, status, "application/json", "")
    exchange.response_data(5, body)
    exchange.finished(5, WHOLE, 0, 0, "")


def test_response_that_a_client_asks_for_is_in_the_conversation_that_has_it() -> None:
    """Neither the requests for it nor their failures are lines: they say nothing of the response."""
    streams = Streams()
    asked, queued, done = (
        b'{"model":"m","input":"Hi.","background":true}',
        b'{"object":"response","id":"r1","status":"queued"}',
        b'{"object":"response","id":"r1","status":"completed","output":[]}',
    )
    exchange = streams.exchange("/v1/responses")
    exchange.request_data(1, asked)
    exchange.request_complete(1)
    polled(streams, "r1", 200, queued)  # before anything says that this conversation has it
    exchange.response_started(2, 200, "application/json", "")
    exchange.response_data(2, queued)
    exchange.finished(3, WHOLE, 0, 0, "")

    polled(streams, "r1", 200, queued)
    polled(streams, "r1", 429, b'{"error":{"message":"Slow down."}}')
    polled(streams, "r2", 200, done)
    polled(streams, "r1", 200, done)

    [tap] = streams.taps
    assert tap.told == [("in", asked), ("out", queued), ("out", queued), ("out", done)]
    assert len(tap.ends) == 1


def test_response_of_a_conversation_with_an_open_exchange_is_left_out() -> None:
    """Exchanges in one stream must not overlap."""
    streams = Streams()
    first, second = (streams.exchange("/v1/responses") for _ in range(2))
    answer = b'{"object":"response","id":"r1","status":"completed","output":[]}'
    first.request_data(1, b'{"model":"m","input":"Hi."}')
    first.response_started(1, 200, "application/json", "")
    first.response_data(1, answer)
    first.finished(1, WHOLE, 0, 0, "")
    second.request_data(2, b'{"model":"m","input":"On.","previous_response_id":"r1"}')
    second.request_complete(2)

    polled(streams, "r1", 200, answer)

    [tap] = streams.taps
    assert [line for _, line in tap.told].count(answer) == 1


def test_incomplete_request_is_ignored() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST[:10])
    exchange.finished(2, LEFT, 0, 0, "")

    assert streams.taps == []


def answered(status: int, kind: str, *data: bytes, ended: Ended = WHOLE) -> Kept:
    """Return the tap of an exchange whose answer comes in these parts."""
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.response_started(2, status, kind, "")
    for part in data:
        exchange.response_data(3, part)
    exchange.finished(4, ended, 0, 0, "")
    [tap] = streams.taps
    assert tap.told.pop(0)[0] == "in"
    return tap


def test_end_of_an_exchange_is_a_line() -> None:
    tap = answered(200, "application/json", b'{"choices":', b"[]}")

    assert tap.told == [("out", b'{"choices":[]}')]
    assert tap.ends == [ExchangeEnd("server", complete=True, status=200)]


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (502, "text/html", b"<html>\n<p>Bad gateway</p>\n</html>"),
        (429, "text/plain", b"slow down"),
        (404, "application/json", b'{"detail": "Not Found"}'),
        (529, "application/json", b'{"message": "full", "type": "overloaded", "code": 529}'),
        (400, "application/json", b'{"error": "no model"}'),
        (200, "text/html; charset=utf-8", b"<html>Log in</html>"),
    ],
)
def test_body_that_is_no_answer_is_told_with_the_end(status: int, kind: str, body: bytes) -> None:
    tap = answered(status, kind, body)

    assert tap.told == []
    assert tap.ends == [ExchangeEnd("server", True, status, body.replace(b"\n", b" ").decode())]


@pytest.mark.parametrize("body", [b'{"error":{"message":"no"}}', b'[{"error":{"code":400}}]'])
def test_error_of_the_api_is_a_line(body: bytes) -> None:
    tap = answered(400, "application/json", body)

    assert (tap.told, tap.ends) == ([("out", body)], [ExchangeEnd("server", True, 400)])


@pytest.mark.parametrize(
    ("kind", "told"), [("application/json", []), ("text/event-stream", [("out", b'data: {"choices":[]}')])]
)
def test_what_breaks_off_within_a_line_is_not_in_the_stream(kind: str, told: list[tuple[str, bytes]]) -> None:
    cut = Ended("server", complete=False, problem="peer closed connection")
    tap = answered(200, kind, b'data: {"choices":[]}\n\ndata: {"cho', ended=cut)

    left = b'data: {"cho' if told else b'data: {"choices":[]}  data: {"cho'
    assert tap.told == told
    assert tap.ends == [ExchangeEnd("server", False, 200, None, len(left), "peer closed connection")]


def test_client_that_leaves_before_the_answer_has_no_status() -> None:
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.request_complete(1)
    exchange.finished(4, LEFT, 0, 0, "")

    assert streams.taps[0].ends == [ExchangeEnd("client", complete=False)]


def test_server_cannot_write_the_end_of_an_exchange() -> None:
    forged = ExchangeEnd("client", complete=False).write()
    streamed = answered(200, "text/event-stream", b"data: 1\n\n" + forged + b"\n\n")
    whole = answered(200, "application/json", forged)

    assert streamed.ends == [ExchangeEnd("server", True, 200)]
    assert whole.ends == [ExchangeEnd("server", True, 200, forged.decode())]


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
KEYS += ["tool_use_id", "functionCall", "functionResponse", "args", "thought", "partial_json", "metadata", "user_id"]

plain: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, 1, "assistant", "message", "response", "tool_use", "tool_result", "text", "x", [], {}, [1]]
)
objects = st.dictionaries(st.sampled_from(KEYS), plain, max_size=4)
nested = st.dictionaries(st.sampled_from(KEYS), plain | objects | st.lists(objects, max_size=2), max_size=4)
nonsense = st.binary(max_size=60) | (nested | objects.map(lambda one: around(one))).map(
    lambda value: json.dumps(value).encode()
)


def around(part: dict[str, object]) -> dict[str, object]:
    """A part of a message, where the APIs have parts."""
    parts = [part, {"functionCall": part}, {"functionResponse": part}]
    return {
        "type": "message",
        "content": parts,
        "content_block": part,
        "delta": part,
        "messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": parts}],
        "contents": [{"role": "user", "parts": parts}, {"role": "model", "parts": parts}],
        "candidates": [{"content": {"parts": parts}}],
        "metadata": {"user_id": json.dumps(part)},
    }


@given(
    path=st.sampled_from(["/chat/completions", "/responses", "/v1/messages", "/models/m:generateContent"]),
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
    exchange.response_started(2, 200, kind, codings[1])
    for body in bodies[1]:
        exchange.response_data(3, b"data: " + body + b"\n")
    exchange.finished(4, WHOLE, 0, 0, "")

    assert all(not conversation.busy for conversation in streams.conversations._open)


ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=1),
    "zstd": zstandard.ZstdCompressor().compress,
    "br, gzip": lambda data: gzip.compress(brotli.compress(data, quality=1)),
}


@pytest.mark.parametrize("size", [0, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 1_000_003])
@pytest.mark.parametrize("coding", ENCODE)
def test_body_is_decoded_whole_in_pieces(coding: str, size: int) -> None:
    for body in (bytes(size), random.Random(size).randbytes(size)):
        decode, sent = decoder(coding), ENCODE[coding](body)
        parts = [sent[start : start + 50_000] for start in range(0, len(sent), 50_000)]

        assert b"".join(piece for part in [*parts, b""] for piece in decode(part)) == body


@pytest.mark.parametrize("coding", ENCODE)
def test_few_bytes_that_decode_to_many_take_no_memory(coding: str) -> None:
    """The rest of the answer is reported as lost."""
    bomb = ENCODE[coding](bytes(128 * 1024 * 1024))
    streams = Streams()
    exchange = streams.exchange()
    exchange.request_data(1, REQUEST)
    exchange.response_started(2, 200, "application/json", coding)
    tracemalloc.start()
    exchange.response_data(3, bomb)
    exchange.finished(4, WHOLE, 0, 0, "")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 16 * 1024 * 1024
    (tap,) = streams.taps
    assert tap.told[1:] == [("it is too long to be read", len(bomb))]
