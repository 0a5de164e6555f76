"""docs/reference/agents.md is what the table of live runs makes, and explains all that is red."""

from __future__ import annotations

from tests.live.matrix import EXPLAINED, NAMES, SCENARIOS, WAYS
from tests.live.report import PAGE, explained, page, read

RED = [(agent, *cell.split("/")) for agent, one in read().items() for cell, wrong in one["cells"].items() if wrong]


def test_page_is_what_the_table_makes() -> None:
    assert PAGE.read_text() == page(read())


def test_table_has_only_what_there_is() -> None:
    for agent, one in read().items():
        assert agent in NAMES
        assert {tuple(cell.split("/")) for cell in one["cells"]} <= {(way, name) for way in WAYS for name in SCENARIOS}


def test_all_that_is_red_is_explained() -> None:
    assert [cell for cell in RED if not explained(*cell)] == []


def test_nothing_else_is_explained() -> None:
    assert {explained(*cell) for cell in RED} == set(EXPLAINED.values())
