"""The lines of one direction, in any pieces: what passes, what is dropped, and how much is remembered."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.daemon.taps import answering
from tooltap.daemon.taps.answering import _Keys, _Lines

LINES = st.lists(st.sampled_from([b"", b"a", b"drop", b"\xff\x00", b"drop a"]), max_size=8)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[start:end] for start, end in pairwise(places)]


def passed(lines: _Lines, parts: list[bytes]) -> bytes:
    return b"".join([*map(lines.feed, parts), lines.finish()])


@given(LINES, st.lists(st.integers(0, 40)), st.booleans())
def test_without_holding_all_passes_at_once(given_lines: list[bytes], cuts: list[int], ends: bool) -> None:
    data = b"\n".join(given_lines) + b"\n" * ends
    lines = _Lines(lambda _: True, lambda: False)

    for part in pieces(data, cuts):
        assert lines.feed(part) == part
        assert lines.is_between_lines == part.endswith(b"\n")
    assert lines.finish() == b""


@given(LINES, st.lists(st.integers(0, 40)), st.booleans())
def test_dropped_lines_are_dropped_whole(given_lines: list[bytes], cuts: list[int], ends: bool) -> None:
    data = b"\n".join(given_lines) + b"\n" * ends
    kept = [line for line in data.splitlines(keepends=True) if line.rstrip(b"\n") != b"drop"]
    lines = _Lines(lambda line: line.rstrip(b"\n") != b"drop", lambda: True)

    assert passed(lines, pieces(data, cuts)) == b"".join(kept)
    assert lines.is_between_lines


def test_line_that_is_too_long_passes_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "MAX_LINE_BYTES", 8)
    read: list[bytes] = []

    def note(line: bytes) -> bool:
        read.append(line)
        return False

    lines = _Lines(note, lambda: True)

    assert lines.feed(b"12345678") == b""
    assert lines.is_between_lines
    assert lines.feed(b"9") == b"123456789"
    assert not lines.is_between_lines
    assert lines.feed(b"0" * 100) == b"0" * 100
    assert sum(map(len, lines._parts)) == 0
    assert lines.feed(b"1\nshort\n") == b"1\n"
    assert read == [b"short\n"]


def test_latest_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "KEPT", 2)
    keys = _Keys()
    for key in ("rpc:1", "rpc:2", "rpc:3"):
        keys.add(key)

    assert [key in keys for key in ("rpc:1", "rpc:2", "rpc:3")] == [False, True, True]
