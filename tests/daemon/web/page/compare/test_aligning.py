"""Which turns of two sessions stand beside each other."""

from __future__ import annotations

import pytest

from tooltap.daemon.web.page.compare import aligned

FIX, TEST, DOCS = "Fix the login form please", "Now run all of the tests", "Write the docs of it"


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ([], [], []),
        ([FIX], [FIX], [(0, 0)]),
        ([FIX], ["Fix that login form please"], [(0, 0)]),  # four of five words
        ([FIX], ["Fix it"], [(0, None), (None, 0)]),
        ([FIX, TEST], [FIX, DOCS, TEST], [(0, 0), (None, 1), (1, 2)]),
        ([TEST, FIX], [FIX, TEST], [(0, None), (1, 0), (None, 1)]),  # their order is kept
        ([FIX, FIX], [FIX], [(0, 0), (1, None)]),
        ([None], [FIX], [(0, 0)]),
        ([None, TEST], [TEST], [(0, None), (1, 0)]),  # a prompt that is alike is worth more
        (["<system-reminder>a b c d e f</system-reminder>" + FIX], [FIX], [(0, 0)]),
    ],
)
def test_alike_prompts_are_paired_in_order(
    left: list[str | None], right: list[str | None], pairs: list[tuple[int | None, int | None]]
) -> None:
    assert aligned(left, right) == pairs


def test_case_and_repeated_words() -> None:
    assert aligned(["FIX THE LOGIN FORM PLEASE"], [FIX]) == [(0, 0)]
    assert aligned(["fix fix fix fix fix"], [FIX]) == [(0, None), (None, 0)]  # a word counts as often as both have it
