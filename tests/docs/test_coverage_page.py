"""docs/coverage.md is generated from the fixtures, and fresh."""

from tests.docs.pages import DOCS
from tests.test_layout import ROOT
from tooltap.normalizers.core.registry import dialects
from tooltap.traces.checks.coverage import page

PAGE = DOCS / "coverage.md"


def test_coverage_page_is_fresh() -> None:
    assert PAGE.read_text() == page(ROOT / "tests" / "fixtures"), "run `make coverage`"


def test_every_dialect_has_a_proven_tool() -> None:
    text = PAGE.read_text()

    for dialect in dialects():
        section = text.split(f"## {dialect}\n")[1].split("\n## ")[0]
        assert section.count("| `") > 0, f"{dialect} proves no tool at all"
