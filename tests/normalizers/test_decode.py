"""A line is read even where it is not quite JSON, and what cannot be read is told apart by reason."""

from typing import Any

import orjson
import pytest

from tooltap.normalizers.decode import decode_line

DEPTH = 200


@pytest.mark.parametrize(
    ("line", "values", "repaired"),
    [
        (b'{"a":1}', [{"a": 1}], False),
        (b'{ "a" : 1 }', [{"a": 1}], False),
        (b'{"a":1}\r', [{"a": 1}], False),
        (b'{"text":"he said \\":\\" twice \\":\\""}', [{"text": 'he said ":" twice ":"'}], False),
        (b'{"a":"caf\xff"}', [{"a": "caf\ufffd"}], True),
        (b'{"a":"\\ud800"}', [{"a": "\ufffd"}], True),
        (b'{"a":"\\ud83d\\ude00"}', [{"a": "\U0001f600"}], False),
        (b'{"a":NaN,"b":-Infinity}', [{"a": None, "b": None}], True),
        (b'{"a":1,"a":2}', [{"a": 2}], True),
        (b'{"x":{"id":"1","k":0,"id":"2"}}', [{"x": {"id": "2", "k": 0}}], True),
        (b'\xef\xbb\xbf{"a":1}', [{"a": 1}], True),
        (b'\x00\x00{"a":1}\x00', [{"a": 1}], True),
        (b'{"a":1}{"b":2}', [{"a": 1}, {"b": 2}], True),
        (b'{"a":"raw\ttab"}', [{"a": "raw\ttab"}], True),
    ],
)
def test_reads_what_can_be_read(line: bytes, values: list[Any], repaired: bool) -> None:
    decoded = decode_line(line, DEPTH)

    assert decoded.values == values
    assert decoded.repaired is repaired
    assert orjson.dumps(decoded.values)


def test_a_number_beyond_every_range_is_not_lost_as_an_error() -> None:
    decoded = decode_line(b'{"a":NaN,"big":' + b"9" * 400 + b',"n":' + b"9" * 30 + b"}", DEPTH)

    assert decoded.values == [{"a": None, "big": None, "n": 1e30}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "blank"),
        (b"  \t\r", "blank"),
        (b"\x00\x00\x00", "blank"),
        (b"[DONE]", "framing"),
        (b"# App-server events log", "not-json"),
        (b"\x7fELF\x02\x01\x01", "not-json"),
        (b'{"a":', "truncated"),
        (b'{"a":"cut in a str', "truncated"),
        (b'{"a" 1}', "not-json"),
        (b'{"a":1}{"b":', "torn"),
        (b"[" * 10_000, "too-deep"),
        (b"[" * 10_000 + b"]" * 10_000, "too-deep"),
        (b"[" * 201 + b"]" * 201, "too-deep"),
        (b'{"k":' * 201 + b"1" + b"}" * 201, "too-deep"),
        (b"[" * 201 + b"NaN" + b"]" * 201, "too-deep"),
    ],
)
def test_says_why_a_line_cannot_be_read(line: bytes, reason: str) -> None:
    decoded = decode_line(line, DEPTH)

    assert decoded.values == []
    assert decoded.reason == reason


def test_wide_is_not_deep() -> None:
    line = b"[" + b",".join([b"[{}]"] * 1_000) + b"]"

    assert decode_line(line, 3).values == [[[{}]] * 1_000]
    assert decode_line(line, 2).reason == "too-deep"


def test_the_data_of_a_server_sent_event_is_read() -> None:
    assert decode_line(b'data: {"a":1}', 200) == ([{"a": 1}], False, None)
    assert decode_line(b'data:{"a":1}', 200).values == [{"a": 1}]


@pytest.mark.parametrize("line", [b"event: message", b"id: 7", b"retry: 100", b": ping", b"data: [DONE]", b"[DONE]"])
def test_what_frames_server_sent_events_is_told_apart_from_noise(line: bytes) -> None:
    assert decode_line(line, 200) == ([], False, "framing")


def test_a_line_of_many_prefixes_is_no_json() -> None:
    assert decode_line(b"data:" * 100_000, 200).reason == "not-json"
