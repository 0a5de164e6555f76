"""Lines are decoded even if they are not quite JSON, and other lines have a reason."""

import json
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.normalizers.wire.decode import TEARS, Decoded, decode_line

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
def test_decodes_readable_lines(line: bytes, values: list[Any], repaired: bool) -> None:
    decoded = decode_line(line, DEPTH)

    assert decoded.values == values
    assert decoded.repaired is repaired
    assert orjson.dumps(decoded.values)


@pytest.mark.parametrize("line", [b'{"n": %s}', b'{"n": -%s}', b'{"n": %s, "n": NaN}'])
def test_a_number_of_very_many_digits_is_no_number(line: bytes) -> None:
    """Python refuses to read more than 4,300 digits."""
    decoded = decode_line(line.replace(b"%s", b"1" * 1_000_000), 100)

    assert (decoded.values, decoded.repaired) == ([{"n": None}], True)


def test_huge_number_is_decoded() -> None:
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
        (b'{"a": 1, x {"b"', "not-json"),
        (b"[" * 10_000, "too-deep"),
        (b"[" * 10_000 + b"]" * 10_000, "too-deep"),
        (b"[" * 201 + b"]" * 201, "too-deep"),
        (b'{"k":' * 201 + b"1" + b"}" * 201, "too-deep"),
        (b"[" * 201 + b"NaN" + b"]" * 201, "too-deep"),
        (b"[" * 201, "too-deep"),
        (b"[" * 200, "truncated"),
        (b'{"k":' * 201, "too-deep"),
        (b'{"a":"' + b"[" * 201, "truncated"),
        (b'{"a":' + b"[]," * 201, "not-json"),
    ],
)
def test_undecodable_line_has_a_reason(line: bytes, reason: str) -> None:
    decoded = decode_line(line, DEPTH)

    assert decoded.values == []
    assert decoded.reason == reason


@pytest.mark.parametrize(
    "torn",
    [
        *(
            '{"a":"cut in a str',
            '{"a":"an escape \\',
            '{"a":"an escape \\u00',
            '{"a":tru',
            '{"a":12.',
            '{"a":-',
            '{"a":1e',
        ),
        *('{"a":{"b":1,', '{"a":{"b":1', '{"a":[1', '{"a', '{"', "{", '{"a":{"b', '{"a":{"', '{"a":{"b":[{"c":0},{"d"'),
    ],
)
@pytest.mark.parametrize("whole", ['{"b":{"c":1}}', '{ "b": {"c": 1}}'])
def test_record_behind_a_torn_one_is_read(torn: str, whole: str) -> None:
    decoded = decode_line(f"{torn}{whole}".encode(), DEPTH)

    assert (decoded.values, decoded.torn) == ([{"b": {"c": 1}}], [(0, torn)])


def begins_like_it(value: dict[str, Any], beside: str) -> bool:
    return next(iter(value), None) == beside


@pytest.mark.parametrize(
    "torn",
    [
        *('{"b":', '{ "b" : ', '{"b":1,"c":', '{"b":{"c":', '{"b":[', '{"b":[1,', '{"b":[[],{"c":2},'),
        *('{"b":["}{\\"",', '{"b":"{\\"","c":[{"b":1},{"c":', '{"b":[tru', '{"b":[12', '{"b":[-', '{"b":[{"c":1}'),
    ],
)
@pytest.mark.parametrize("whole", ['{"b":{"b":"}"}}', '{ "b": [{"c": "\\"{"}] } \x00'])
@pytest.mark.parametrize("behind", ["", '{"d":1}', '{"e":"x'])
def test_record_behind_one_torn_before_a_value_is_read(torn: str, whole: str, behind: str) -> None:
    decoded = decode_line(f"{torn}{whole}{behind}".encode(), DEPTH, begins_like_it)

    assert decoded.values == [json.loads(whole.rstrip("\x00")), *([{"d": 1}] if "d" in behind else [])]
    assert decoded.torn == [(0, torn), *([(1, behind)] if "e" in behind else [])]


def test_records_torn_before_values_are_read_alike() -> None:
    decoded = decode_line(b'{"b":{"b":1}{"b":[{"b":2}{"b":3}', DEPTH, begins_like_it)

    assert decoded.values == [{"b": 1}, {"b": 2}, {"b": 3}]
    assert decoded.torn == [(0, '{"b":'), (1, '{"b":[')]


@pytest.mark.parametrize(
    "line", ['{"b":{"c":1}', '{"b":[{"c":1},{"b":1}]', '{"b":"{\\"b\\":1}', '{"b":1,"c":"}', '[{"b":1}']
)
def test_part_of_a_truncated_record_is_no_record(line: str) -> None:
    decoded = decode_line(line.encode(), DEPTH, begins_like_it)

    assert (decoded.values, decoded.reason) == ([], "truncated")


def test_records_around_torn_ones_are_read() -> None:
    decoded = decode_line(b'{"a":1}{"b":"x{"c":"y{"d":1}{"e":2}{"f"', DEPTH)

    assert decoded.values == [{"a": 1}, {"d": 1}, {"e": 2}]
    assert decoded.torn == [(1, '{"b":"x'), (1, '{"c":"y'), (3, '{"f"')]


@pytest.mark.parametrize("line", [b'{"a":1,"b":{"c":1}', b'{"a":[{"c":1}', b'{"a":{"c":{"d":1}}'])
def test_object_inside_a_truncated_line_is_no_record(line: bytes) -> None:
    decoded = decode_line(line, DEPTH)

    assert (decoded.values, decoded.reason) == ([], "truncated")


def test_torn_records_of_a_line_are_bounded() -> None:
    assert decode_line(b'{"a":"x' * TEARS + b'{"b":1}', DEPTH).values == [{"b": 1}]
    assert decode_line(b'{"a":"x' * (TEARS + 1) + b'{"b":1}', DEPTH).values == []


def test_wide_value_is_not_deep() -> None:
    line = b"[" + b",".join([b"[{}]"] * 1_000) + b"]"

    assert decode_line(line, 3).values == [[[{}]] * 1_000]
    assert decode_line(line, 2).reason == "too-deep"


def test_server_sent_event_data_is_decoded() -> None:
    assert decode_line(b'data: {"a":1}', 200) == Decoded([{"a": 1}])
    assert decode_line(b'data:{"a":1}', 200).values == [{"a": 1}]


@pytest.mark.parametrize(
    "line", [b"event: message", b"id: 7", b"retry: 100", b": ping", b":\r", b"data: [DONE]", b"[DONE]"]
)
def test_server_sent_event_framing_is_not_noise(line: bytes) -> None:
    assert decode_line(line, 200) == Decoded([], reason="framing")


def test_repeated_prefix_is_not_json() -> None:
    assert decode_line(b"data:" * 100_000, 200).reason == "not-json"


class Written(NamedTuple):
    """JSON in any formatting, with its depth and whether keys repeat."""

    text: str
    depth: int = 0
    repeats: bool = False


def _string(word: str, quote: str) -> str:
    return '"' + "".join(quote if char == '"' else json.dumps(char)[1:-1] for char in word) + '"'


_words = st.builds(_string, st.text('ab":{[\\é', max_size=4), st.sampled_from(['\\"', "\\u0022"]))
_atoms = st.one_of(_words, st.sampled_from(["null", "true", "17", "-2"])).map(Written)


def _array(items: list[Written]) -> Written:
    text = ", ".join(one.text for one in items)
    return Written(f"[{text}]", 1 + max((one.depth for one in items), default=0), any(one.repeats for one in items))


def _object(members: list[tuple[str, str, Written]]) -> Written:
    text = ",".join(f"{key}{colon}{one.text}" for key, colon, one in members)
    repeats = len({json.loads(key) for key, _, _ in members}) < len(members)
    below = [one for _, _, one in members]
    return Written(
        f"{{{text}}}", 1 + max((one.depth for one in below), default=0), repeats or any(one.repeats for one in below)
    )


_members = st.tuples(_words, st.sampled_from([":", ": ", " : ", "\t:"]))
_values = st.recursive(
    _atoms,
    lambda below: st.one_of(
        st.lists(below, max_size=3).map(_array),
        st.lists(st.builds(lambda member, one: (*member, one), _members, below), max_size=3).map(_object),
    ),
)


@given(_values.filter(lambda value: value.depth > 0), st.integers(1, 6))
def test_depth_and_duplicate_keys_match_a_full_walk(written: Written, max_depth: int) -> None:
    decoded = decode_line(written.text.encode(), max_depth)

    if written.repeats:  # the earlier value of a repeated key does not count for the depth
        assert decoded.repaired or decoded.reason == "too-deep"
    elif written.depth > max_depth:
        assert decoded == Decoded([], reason="too-deep")
    else:
        assert decoded == Decoded([json.loads(written.text)])


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (b"\x1b[?25h", b""),
        (b"\x1b[2J\x1b[1;31m\r", b"\x1b[0m\r"),
        (b"\x1b]0;agent [1] {x}\x07", b""),
        (b"\x1b]0;agent\x1b\\", b""),
        (b"\x1bc\x1b(B\x07", b"\x07"),
        (b"", b"\x1b[0m"),
    ],
)
def test_escape_sequences_around_json_are_dropped(before: bytes, behind: bytes) -> None:
    """Windows launchers of ACP agents print them before the first message (kagan issue 148)."""
    json = b'{"a":[1,"\\u001b[0m"]}'

    assert decode_line(before + json + behind, 100) == Decoded([{"a": [1, "\x1b[0m"]}], repaired=True)


@pytest.mark.parametrize(
    "line", [b"\x1b[0m", b'\x1b[1m[info]\x1b[0m sent {"a":1}', b'\x1b]0;t{"a":1}', b'say \x1b[0m{"a":1}']
)
def test_json_behind_words_is_no_line(line: bytes) -> None:
    """A log may quote a message that is a line of its own."""
    assert decode_line(line, 100) == Decoded([], reason="not-json")
