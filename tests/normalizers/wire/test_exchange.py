"""Server-sent events become lines, and the line of a tap says how an exchange ended."""

from __future__ import annotations

import pytest

from tooltap.normalizers.wire.decode import FRAMING, decode_line
from tooltap.normalizers.wire.exchange import EventSplitter, ExchangeEnd, Verdict
from tooltap.normalizers.wire.framing import LongLine


def events(*parts: bytes, max_line: int = 1_000) -> list[bytes | LongLine]:
    splitter = EventSplitter(max_line)
    found: list[bytes | LongLine] = []
    for part in parts:
        found += splitter.feed(part)
    return found + splitter.finish()


STREAMS = {
    "one data line": (b'data: {"a":1}\n\n', [b'data: {"a":1}']),
    "no space": (b'data:{"a":1}\n\n', [b'data: {"a":1}']),
    "no last line end": (b'data: {"a":1}', [b'data: {"a":1}']),
    "several data lines": (b'data: {"a":\ndata: 1}\n\n', [b'data: {"a": 1}']),
    "CR": (b'data: {"a":1}\r\rdata: {"b":\rdata: 2}\r\r', [b'data: {"a":1}', b'data: {"b": 2}']),
    "CR LF": (b'data: {"a":\r\ndata: 1}\r\n\r\n', [b'data: {"a": 1}']),
    "comments and other fields": (b": keep-alive\n\n:\r\nevent: x\nid: 7\nretry: 5\ndata: 1\n\n", [b"data: 1"]),
    "byte order mark": (b"\xef\xbb\xbfdata: 1\n\n", [b"data: 1"]),
    "no blank line between values": (b'data: {"a":1}\ndata: {"b":2}\n', [b'data: {"a":1}', b'data: {"b":2}']),
    "end": (b"data: 1\n\ndata: [DONE]\n\n", [b"data: 1", b"data: [DONE]"]),
    "no data": (b"data:\n\ndata\n\n", []),
    "lines without a field": (b'{"a":1}\nwords\n', [b'{"a":1}', b"words"]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_event_is_a_line_wherever_the_stream_is_cut(name: str) -> None:
    stream, lines = STREAMS[name]

    assert events(stream) == lines
    assert events(*(bytes([byte]) for byte in stream)) == lines


def test_event_that_is_too_long_has_a_head() -> None:
    part = b"data: [" + b"1," * 20 + b"\n"

    assert events(part, b"data: 2]\n\n", max_line=50) == [b"data: [" + b"1," * 20 + b" 2]"]
    [long] = events(part, part, b"\n", max_line=50)
    assert isinstance(long, LongLine)
    assert (long.head, long.size) == (b"data: [" + b"1," * 20, 84)
    assert events(b"data: " + b"x" * 50 + b"\n\n", max_line=50) == [LongLine(b"data: " + b"x" * 50, 56)]


def test_end_of_an_exchange_is_a_comment_to_others() -> None:
    end = ExchangeEnd("server", False, 200, "two\nlines \u2028", 7, "reset")

    assert b"\n" not in end.write()
    assert ExchangeEnd.read(end.write()) == end
    assert decode_line(end.write(), 100).reason == FRAMING


@pytest.mark.parametrize(
    "line", [b": tooltap exchange", b": tooltap exchange {}", b": keep-alive", b": tooltap exchange ["]
)
def test_other_comments_state_no_end(line: bytes) -> None:
    assert ExchangeEnd.read(line) is None


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (ExchangeEnd("client", False, 200), Verdict("cancelled", "client-left")),
        (ExchangeEnd("client", False), Verdict("cancelled", "client-left")),
        (
            ExchangeEnd("server", True, 503),
            Verdict("failed", "503", "HTTP 503 Service Unavailable", {"status": 503}),
        ),
        (
            ExchangeEnd("server", True, 502, "<html>x</html>"),
            Verdict("failed", "502", "HTTP 502 Bad Gateway", {"status": 502, "body": "<html>x</html>"}),
        ),
        (
            ExchangeEnd("server", True, 529, '{"message":"full","type":"x"}'),
            Verdict("failed", "529", "HTTP 529: full", {"status": 529, "body": '{"message":"full","type":"x"}'}),
        ),
        (
            ExchangeEnd("server", True, 429, "slow down"),
            Verdict("failed", "429", "HTTP 429 Too Many Requests: slow down", {"status": 429, "body": "slow down"}),
        ),
        (
            ExchangeEnd("server", False, 200, problem="reset"),
            Verdict("failed", "connection-lost", "the server broke off the answer: reset"),
        ),
        (
            ExchangeEnd("tap", False, 200),
            Verdict("failed", "gateway-stopped", "the gateway stopped before the answer was complete"),
        ),
        (ExchangeEnd("server", True, 200), Verdict("failed", "unfinished", "the answer ended before it was finished")),
        (ExchangeEnd("server", True, 200, unread=5), None),
    ],
)
def test_verdict_says_how_the_turn_ends(end: ExchangeEnd, verdict: Verdict | None) -> None:
    assert end.verdict() == verdict
