"""Control frames: what the daemon accepts, and the sentence with which it answers a mistake."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tooltap import __version__
from tooltap.protocol.filters import EventMeta, Filter
from tooltap.protocol.frames import (
    ERROR_CODES,
    ErrorCode,
    FrameError,
    Gap,
    Ingest,
    Live,
    OutputRequest,
    Problem,
    Reply,
    Subscribe,
    Welcome,
    decode_client_frame,
    decode_daemon_frame,
    encode_frame,
)


def test_subscribe_defaults() -> None:
    assert decode_client_frame(b'{"op":"subscribe"}') == Subscribe(
        after="now", filter=Filter(), partials=False, follow=True, as_="events"
    )


def test_frames_use_wire_names() -> None:
    assert decode_client_frame(
        b'{"op":"ingest","stream":"a/b~1","framing":"tapped","mcpServers":["x"],"from":7}'
    ) == Ingest(stream="a/b~1", framing="tapped", mcp_servers=("x",), from_=7)
    assert decode_client_frame(b'{"op":"output","id":"q","outputId":"s:1:o0","unit":"lines"}') == OutputRequest(
        id="q", output_id="s:1:o0", unit="lines"
    )
    assert orjson.loads(encode_frame(Gap(from_=3, to=9, reason="retention"))) == {
        "op": "gap",
        "from": 3,
        "to": 9,
        "reason": "retention",
    }


def test_op_is_the_first_key() -> None:
    assert encode_frame(Live(seq=4)) == b'{"op":"live","seq":4}\n'


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (b"", "bad-frame", "the line is not valid JSON"),
        (b"\xff\xfe", "bad-frame", "the line is not valid JSON"),
        (b'{"op":"ping"', "bad-frame", "the line is not valid JSON"),
        (b"[" * 100_000, "bad-frame", "a frame is a JSON object with an `op`"),
        (b'"subscribe"', "bad-frame", "a frame is a JSON object with an `op`"),
        (b"{}", "bad-frame", "a frame is a JSON object with an `op`; object missing required field `op`"),
        (
            b'{"op":"subscrib"}',
            "unknown-op",
            "unknown op 'subscrib'; known are answer, calls, changed-files, end,",
        ),
        (b'{"op":"subscribe","after":[]}', "bad-frame", "subscribe: `after`: expected `int | str`, got `array`"),
        (b'{"op":"subscribe","after":-1}', "bad-frame", "subscribe: `after`: expected `int` >= 0"),
        (b'{"op":"subscribe","since":1}', "bad-frame", "subscribe: object contains unknown field `since`"),
        (
            b'{"op":"subscribe","filter":{"kinds":["x"]}}',
            "bad-frame",
            "subscribe: `filter`: object contains unknown field `kinds`",
        ),
        (
            b'{"op":"subscribe","filter":{"kind":"x"}}',
            "bad-frame",
            "subscribe: `filter.kind`: expected `array | null`, got `str`",
        ),
        (
            b'{"op":"subscribe","filter":{"kind":[]}}',
            "bad-frame",
            "subscribe: `filter.kind`: expected `array` of length >= 1",
        ),
        (b'{"op":"ingest","stream":"a b"}', "bad-frame", "ingest: `stream`: expected `str` matching regex"),
        (b'{"op":"event","id":1}', "bad-frame", "event: object missing required field `seq`"),
    ],
)
def test_mistake_is_one_sentence(line: bytes, code: str, sentence: str) -> None:
    with pytest.raises(FrameError) as raised:
        decode_client_frame(line)

    assert raised.value.code == code
    assert str(raised.value).startswith(sentence)


def test_keys_that_only_a_newer_client_knows_have_no_effect() -> None:
    newer = {
        "op": "subscribe",
        "speaks": "99.0.1rc1",
        "after": 7,
        "colour": "red",
        "filter": {"kind": ["x"], "mood": 1},
    }

    frame = decode_client_frame(orjson.dumps(newer))

    assert frame == Subscribe(speaks="99.0.1rc1", after=7, filter=Filter(kind=("x",)))


def test_newer_client_is_told_its_other_mistakes() -> None:
    with pytest.raises(FrameError, match=r"subscribe: `after`: expected `int` >= 0"):
        decode_client_frame(b'{"op":"subscribe","speaks":"99.0","colour":"red","after":-1}')
    with pytest.raises(FrameError, match="unknown op 'paint'"):
        decode_client_frame(b'{"op":"paint","speaks":"99.0"}')


@pytest.mark.parametrize("speaks", [__version__, "0.0.9", "new", None])
def test_other_clients_must_not_have_unknown_keys(speaks: str | None) -> None:
    with pytest.raises(FrameError) as raised:
        decode_client_frame(orjson.dumps({"op": "ping", "id": 4, "speaks": speaks, "colour": "red"}))

    assert (raised.value.code, raised.value.request_id) == ("bad-frame", 4)


def test_filter_lists_are_bounded() -> None:
    frame = {"op": "subscribe", "filter": {"session": ["s"] * 257}}

    with pytest.raises(FrameError, match=r"`filter.session`: expected `array` of length <= 256"):
        decode_client_frame(orjson.dumps(frame))


def test_wrong_request_keeps_its_id() -> None:
    with pytest.raises(FrameError) as raised:
        decode_client_frame(b'{"op":"event","id":"e1","seq":"one"}')

    assert raised.value.request_id == "e1"


def test_connection_survives_wrong_frames() -> None:
    """Unless the line is not a frame, or lines of a stream follow it."""
    fatal = {}
    for line in (b"not json", b"[1]", b'{"op":"nope"}', b'{"op":"subscribe","x":1}', b'{"op":"ingest","x":1}'):
        with pytest.raises(FrameError) as raised:
            decode_client_frame(line)
        fatal[line] = raised.value.fatal

    assert list(fatal.values()) == [True, True, False, False, True]


def test_error_codes_are_explained() -> None:
    assert set(ERROR_CODES) == set(get_args(ErrorCode))


def test_client_ignores_additions() -> None:
    assert decode_daemon_frame(b'{"op":"weather","sun":true}') is None
    assert decode_daemon_frame(b'{"op":"live","seq":4,"colour":"red"}') == Live(seq=4)


def test_failed_reply_is_decoded() -> None:
    reply = Reply(id=1, ok=False, error=Problem(code="not-found", message="no"))

    assert decode_daemon_frame(encode_frame(reply)) == reply


def test_welcome_is_decoded() -> None:
    welcome = Welcome(protocol=1, schema=2, daemon="tooltap/0.1.0", journal="ab", oldest=1, latest=0)

    assert decode_daemon_frame(encode_frame(welcome)) == welcome


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("after", "filter", "partials", "follow", "as", "stream", "framing", "dialect", "from", "id", "seq", "view"),
        *("limit", "before", "outputId", "offset", "length", "unit", "session", "other"),
    ]
)
OPS = st.sampled_from(["subscribe", "ingest", "sessions", "event", "calls", "output", "stats", "end", "ping", "x"])


def check(line: bytes) -> None:
    frame: Any
    try:
        frame = decode_client_frame(line)
    except FrameError as error:
        frame = error
    if isinstance(frame, FrameError):
        assert "\n" not in str(frame)
        assert frame.code in ERROR_CODES
    else:
        assert decode_client_frame(msgspec.json.encode(frame)) == frame


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=4), OPS)
def test_any_object_is_a_frame_or_a_mistake(fields: dict[str, Any], op: str) -> None:
    check(msgspec.json.encode({"op": op, **fields}))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_line_is_a_frame_or_a_mistake(line: bytes) -> None:
    check(line)


# -- filters ------------------------------------------------------------------------------------------------------

CALL = EventMeta("tool-call", "s1", "one", "claude", None, "Bash", "exec_command")


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (Filter(), True),
        (Filter(kind=("message", "tool-call")), True),
        (Filter(kind=("message",)), False),
        (Filter(kind=("tool-call",), session=("two",)), False),
        (Filter(tool=("Bash",)), True),
        (Filter(tool=("exec_command",)), True),
        (Filter(tool=("exec",)), False),
        (Filter(agent=("a",)), False),
        (Filter(stream=("s1",), provider=("claude", "codex")), True),
    ],
)
def test_filter_matches_any_value_of_every_key(wanted: Filter, matches: bool) -> None:
    assert wanted.matches(CALL) is matches
