"""Tapped lines: one format for publishers, recordings and traces."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.protocol.inputs import (
    Block,
    Close,
    Line,
    Lost,
    NotTappedError,
    ProcessEnd,
    each,
    lines_of,
    looks_tapped,
    read_tapped,
    write_end,
    write_tapped,
)

NOW = 1_795_293_851_000


@given(st.binary().filter(lambda line: b"\n" not in line), st.none() | st.integers(10**12, 10**13))
def test_tapped_line_round_trip(line: bytes, t: int | None) -> None:
    assert read_tapped(write_tapped(line, t, "in")) == Line(line, t, "in")


def test_line_may_be_any_json_value() -> None:
    assert read_tapped(b'{"dir":"out","line":{"a":[1]}}') == Line(b'{"a":[1]}', None, "out")


def test_small_t_is_an_offset() -> None:
    assert read_tapped(b'{"t":1818,"dir":"out","line":"x"}') == Line(b"x", None, "out")
    assert read_tapped(orjson.dumps({"t": NOW, "line": "x"})) == Line(b"x", NOW, None)


def test_long_tapped_line_is_head_and_length() -> None:
    record = write_tapped(b"head", NOW, "out", size=70_000_000)

    assert read_tapped(record) == Line(b"head", NOW, "out", size=70_000_000)
    assert read_tapped(b'{"line":"whole","bytes":5}') == Line(b"whole", None, None)


def test_control_records() -> None:
    assert read_tapped(b'{"op":"end"}') == Close()
    assert read_tapped(b'{"op":"lost","lines":3,"bytes":90,"reason":"spool full"}') == Lost(3, 90, "spool full")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"nope", "not JSON"),
        (b"[1]", "not an object"),
        (b'{"t":1}', 'neither "line" nor "b64"'),
        (b'{"b64":"***"}', "not base64"),
        ('{"b64":"é"}'.encode(), "not base64"),
        (b'{"dir":"sideways","line":"x"}', "unknown direction 'sideways'"),
        (b'{"op":"lost","lines":0}', "unknown record 'lost'"),
        (b'{"op":"subscribe"}', "unknown record 'subscribe'"),
    ],
)
def test_invalid_tapped_line_has_a_reason(line: bytes, why: str) -> None:
    with pytest.raises(NotTappedError, match=why):
        read_tapped(line)


@pytest.mark.parametrize(
    ("line", "tapped"),
    [
        (b'{"dir":"in","t":8,"line":{"jsonrpc":"2.0"}}', True),
        (b'{"dir":"out","b64":"/w=="}', True),
        (b'{"type":"system","subtype":"init"}', False),
        (b'{"v":1,"t":1,"stream":"s","dialect":"acp","n":1,"dir":"in","line":"x"}', False),
        (b"[1,2]", False),
        (b"noise", False),
    ],
)
def test_first_line_decides_whether_a_recording_is_tapped(line: bytes, tapped: bool) -> None:
    assert looks_tapped(line) is tapped


def test_block_is_its_lines_one_by_one() -> None:
    block = Block([b"a", b"", b"with\na newline"], 5, "in")

    assert list(each(block)) == [Line(b"a", 5, "in"), Line(b"", 5, "in"), Line(b"with\na newline", 5, "in")]
    assert lines_of(block) == 3
    lost = Lost(2, 10, "full")
    assert list(each(lost)) == [lost]
    assert (lines_of(lost), lines_of(Line(b"a")), lines_of(Close())) == (2, 1, 0)


@pytest.mark.parametrize(
    ("keys", "process"),
    [
        ({"exit": 3}, ProcessEnd(3)),
        ({"signal": "SIGKILL"}, ProcessEnd(signal="SIGKILL")),
        ({"exit": 143, "stoppedBy": "client"}, ProcessEnd(143, stopped_by="client")),
    ],
)
def test_end_states_how_the_process_ended(keys: dict[str, object], process: ProcessEnd) -> None:
    record = {"op": "end", "t": NOW, **keys}

    assert orjson.loads(write_end(NOW, process)) == record
    assert read_tapped(orjson.dumps(record)) == Close(NOW, process=process)


@pytest.mark.parametrize("keys", [{}, {"exit": "3"}, {"exit": True}, {"exit": -9}, {"signal": 9}, {"signal": "S" * 41}])
def test_end_without_a_known_process(keys: dict[str, object]) -> None:
    """What another publisher writes there is not read."""
    assert read_tapped(orjson.dumps({"op": "end", **keys})) == Close()


def test_unknown_hand_of_an_end_is_left_out() -> None:
    assert read_tapped(b'{"op":"end","exit":1,"stoppedBy":"moon"}') == Close(process=ProcessEnd(1))
