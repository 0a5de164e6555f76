"""Figures as a reader takes them in at a glance."""

from __future__ import annotations

import pytest

from tooltap.daemon.formats import amount, dollars, rounded, spent, without_marks


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


@pytest.mark.parametrize(
    ("cost", "digits", "shown", "at_least"),
    [
        (None, 2, None, None),
        (-1, 2, None, None),
        (1e10, 2, None, None),
        (0.0, 2, "$0.00", "$0.00"),
        (0.008, 2, "$0.01", "$0.0080"),
        (0.004, 2, "< $0.01", "$0.0040"),
        (0.00004, 4, "< $0.0001", "$0.00004000"),
        (0.01, 2, "$0.01", "$0.01"),
        (0.29, 2, "$0.29", "$0.29"),
        (0.1 + 0.7, 2, "$0.80", "$0.80"),
        (1_234.999, 2, "$1,235.00", "$1,234.99"),
        (0.00128, 4, "$0.0013", "$0.0012"),
    ],
)
def test_lower_bound_of_a_cost_is_rounded_down(
    cost: float | None, digits: int, shown: str | None, at_least: str | None
) -> None:
    assert dollars(cost, digits) == shown
    assert dollars(cost, digits, is_bound=True) == at_least


@pytest.mark.parametrize(
    ("number", "shown", "in_terminal"),
    [(88, "88", "88"), (1_880, "1.8 k", "1.8k"), (9_990, "9.9 k", "9.9k"), (12_990_000, "12 M", "12.9M")],
)
def test_lower_bound_of_tokens_is_rounded_down(number: int, shown: str, in_terminal: str) -> None:
    assert amount(number, is_bound=True) == shown
    assert rounded(number, is_bound=True) == in_terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**Investigating duplicate queries**\n\nI look.", "Investigating duplicate queries\n\nI look."),
        ("## Plan\nSee:\n```python\nx = 2**3**4\n```\nDone.", "Plan\nSee:\nx = 2**3**4\nDone."),
        ("#hashtag and f(**a, **b), 2 ** 3, ***", "#hashtag and f(**a, **b), 2 ** 3, ***"),
        ("~~~\n", ""),
        ("Run `make **all**` or **`make x` now**.", "Run make **all** or make x now."),
        ("one ` alone", "one ` alone"),
    ],
)
def test_markdown_that_is_not_rendered(text: str, shown: str) -> None:
    assert without_marks(text) == shown
