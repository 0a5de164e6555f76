"""Each promise has a row that names its tests, and each test that is named exists."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS
from tests.test_layout import ROOT

PROMISES = re.findall(r"^- \*\*(.+?)\.?\*\*", (DOCS / "explanation" / "promises.md").read_text(), re.MULTILINE)
HELD = (DOCS / "contributing" / "promises.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", HELD, re.MULTILINE)]


def test_each_promise_has_a_row() -> None:
    assert len(PROMISES) > 30
    assert list(dict.fromkeys(PROMISES)) == [promise for promise, *_ in ROWS[2:]]


def test_each_row_names_tests_that_exist() -> None:
    for promise, _, held in ROWS[2:]:
        named = re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", held)
        assert any(test for _, test in named), promise
        for file, test in named:
            text = (ROOT / file).read_text()
            assert not test or f"def {test}(" in text, f"{promise}: {file} has no {test}"
