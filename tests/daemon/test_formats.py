"""Figures as a reader takes them in at a glance."""

from __future__ import annotations

import pytest

from tooltap.daemon.formats import amount, spent


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        *(
            (None, None),
            (-1, None),
            (1e20, None),
            (0, "0.0 s"),
            (340, "0.3 s"),
            (14_000, "14 s"),
            (100_000, "1 m 40 s"),
        ),
        *(
            (59_400, "59 s"),
            (59_600, "1 min"),
            (120_000, "2 min"),
            (599_400, "9 m 59 s"),
            (41 * 60_000, "41 min"),
            (63 * 60_000, "63 min"),
            (100 * 60_000, "1 h 40"),
        ),
        (3 * 86_400_000, "3 d"),
    ],
)
def test_spent(milliseconds: float | None, shown: str | None) -> None:
    assert spent(milliseconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, None),
        (-1, None),
        (88, "88"),
        (1_500, "1.5 k"),
        (640_000, "640 k"),
        (1_800_000, "1.8 M"),
        (10**12, "1,000 B"),
    ],
)
def test_amount(number: int | None, shown: str | None) -> None:
    assert amount(number) == shown
