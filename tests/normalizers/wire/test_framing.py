"""Bytes are split into lines, wherever chunks end."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter


def split(chunks: list[bytes], max_line: int = 1_000) -> list[bytes | LongLine]:
    splitter = Splitter(max_line)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.finish()
    return lines + ([last] if last is not None else [])


def test_newline_ends_a_line() -> None:
    assert split([b"a\n\nb\n"]) == [b"a", b"", b"b"]


def test_unterminated_last_line_counts() -> None:
    assert split([b"a\nb"]) == [b"a", b"b"]


def test_empty_input_has_no_lines() -> None:
    assert split([b""]) == []


def test_long_line_becomes_head_and_length() -> None:
    long = b"x" * 10_000

    assert split([long + b"\nnext\n"], max_line=5_000) == [LongLine(b"x" * HEAD_BYTES, 10_000), b"next"]
    assert split([long], max_line=5_000) == [LongLine(b"x" * HEAD_BYTES, 10_000)]
    assert split([long[:5_000] + b"\n"], max_line=5_000) == [b"x" * 5_000]


def test_long_line_is_not_held_in_memory() -> None:
    splitter = Splitter(10_000)

    for _ in range(1_000):
        splitter.feed(b"y" * 1_000)

    assert splitter.pending == 1_000_000
    assert sum(len(part) for part in splitter._parts) <= 11_000


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)), st.integers(1, 50))
def test_chunk_boundaries_change_nothing(data: bytes, cuts: list[int], max_line: int) -> None:
    data = data.replace(b"\x01", b"\n")
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    chunks = [data[start:end] for start, end in itertools.pairwise(bounds)]

    assert split(chunks, max_line) == split([data], max_line)
