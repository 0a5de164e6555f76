"""The page that says what is proven is made from the fixtures, and fresh."""

from pathlib import Path

from tooltap.normalizers.core.registry import builtin
from tooltap.traces.checks.coverage import page

ROOT = Path(__file__).parent.parent


def test_the_coverage_page_is_fresh() -> None:
    assert (ROOT / "docs" / "coverage.md").read_text() == page(ROOT / "tests" / "fixtures"), "run `make coverage`"


def test_every_dialect_proves_a_shell_command_or_says_nothing_of_it() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text()

    for dialect in builtin():
        section = text.split(f"## {dialect}\n")[1].split("\n## ")[0]
        assert section.count("| `") > 0, f"{dialect} proves no tool at all"
