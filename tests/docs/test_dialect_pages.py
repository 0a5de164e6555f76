"""What is made of the dialects' folders and recordings is fresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialects import CURATED, FIXTURES, ROOT, pages, recorded
from tooltap.normalizers.catalog.registry import builtin
from tooltap.traces.checks.coverage import proofs
from tooltap.traces.fixtures.fixtures import Fixtures


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_page_is_fresh(path: Path) -> None:
    assert path.read_text() == pages()[path], "run `make dialects`"


def test_every_recorded_dialect_is_curated() -> None:
    assert {example.dialect for example in Fixtures.load(CURATED).examples} == recorded()


@pytest.mark.parametrize("dialect", builtin())
def test_every_dialect_proves_a_tool(dialect: str) -> None:
    assert proofs(FIXTURES / dialect)
