"""Reduced lines are sufficient and minimal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tooltap.traces.fixtures.reduce import reduced


def test_last_line_alone_if_sufficient() -> None:
    assert reduced(["a", "b", "c"], lambda lines: True) == ["c"]


def test_nothing_is_removed_if_all_lines_are_needed() -> None:
    assert reduced([1, 2, 3, 4, 5], lambda lines: len(lines) == 5) == [1, 2, 3, 4, 5]


@given(size=st.integers(1, 200), data=st.data())
def test_needed_lines_stay_in_order(size: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, size - 1), max_size=5)) | {size - 1}

    assert reduced(range(size), lambda lines: needed <= set(lines)) == sorted(needed)


@given(size=st.integers(2, 60), parity=st.integers(1, 5))
def test_result_is_minimal(size: int, parity: int) -> None:
    """Also if lines are needed only in combination."""

    def shows(lines: list[int]) -> bool:
        return lines[-1] == size - 1 and sum(line % 7 for line in lines) >= parity

    if not shows(list(range(size))):
        return
    left = reduced(range(size), shows)

    assert shows(left)
    assert not any(shows(left[:n] + left[n + 1 :]) for n in range(len(left) - 1))
