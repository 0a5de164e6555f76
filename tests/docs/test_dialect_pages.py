"""What is made of the dialects' folders and recordings is fresh."""

from __future__ import annotations

import pytest

from tests.dialects import CURATED, FIXTURES, PAGES, ROOT, recorded
from tests.kit import skips
from tests.kit.coverage import proofs
from tooltap.normalizers.catalog.registry import builtin
from tooltap.traces.fixtures.fixtures import Fixtures


@pytest.mark.parametrize("name", PAGES)
def test_page_is_fresh(name: str) -> None:
    path = ROOT / name

    assert path.read_text() == PAGES[name](path), "run `make dialects`"


def test_every_class_of_skipped_lines_is_described() -> None:
    assert skips.HELD.keys() == skips.reasons().keys()


def test_every_recorded_dialect_is_curated() -> None:
    assert {example.dialect for example in Fixtures.load(CURATED).examples} == recorded()


WITHOUT_RESULTS = {
    "auggie-json": "has only the last answer of a run",
    "cursor-transcript": "has no results",
    "hooks": "asks, and is not answered",
}


@pytest.mark.parametrize("dialect", sorted(builtin().keys() - WITHOUT_RESULTS.keys()))
def test_every_dialect_proves_a_tool(dialect: str) -> None:
    assert proofs(FIXTURES / dialect)
