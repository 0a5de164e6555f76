"""What test runners say of their runs."""

from __future__ import annotations

import pytest

from tooltap.daemon.show.facts import summary_of


@pytest.mark.parametrize(
    ("printed", "summary"),
    [
        ("F...\n1 failed, 31 passed in 13.20s\n", "1 failed, 31 passed"),
        ("============ 32 passed, 2 skipped in 1.10s ============", "32 passed, 2 skipped"),
        ("\x1b[31m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 0.04s", "1 failed, 2 passed"),
        ("3 passed in 1s\nagain\n1 failed, 2 passed in 1s", "1 failed, 2 passed"),
        ("Tests:       1 failed, 11 passed, 12 total\nTime: 2 s", "1 failed, 11 passed"),
        (" Test Files  1 passed (1)\n      Tests  2 failed | 7 passed (9)\n", "2 failed, 7 passed"),
        ("test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured", "1 failed, 3 passed, 2 skipped"),
        ("  12 passing (40ms)\n  1 failing\n", "1 failed, 12 passed"),
        ("5 examples, 2 failures", "2 failed, 3 passed"),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, errors=1)", "2 failed, 2 passed"),
        ("Ran 4 tests in 0.001s\n\nOK", "4 passed"),
        ("OK (9 tests, 12 assertions)", "9 passed"),
        ("# pass 7\n# fail 1\n", "1 failed, 7 passed"),
        ("Failed!  - Failed:     1, Passed:     8, Skipped:     0, Total:     9", "1 failed, 8 passed"),
        ("the check passed, 3 failed earlier", ""),
        ("copied 12 files", ""),
        ("", ""),
    ],
)
def test_summary_of_a_run(printed: str, summary: str) -> None:
    assert summary_of(printed) == summary
