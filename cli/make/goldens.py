"""Compares our payloads with those of the ancestor, case by case: `make lab-goldens`.

    python -m tooltap.cli.make.goldens FILE

Exit code 0: everything is equal or explained; 1: something is unexplained, or an entry of the list explains nothing
(`traces/checks/goldens.py`); 2: FILE cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tooltap.cli.common.guard import guard
from tooltap.cli.common.printing import on_stderr, say
from tooltap.traces.checks.goldens import DIFFERENCES, compare, read_cases

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        on_stderr("usage: python -m tooltap.cli.make.goldens FILE")
        return 2
    try:
        cases = read_cases(Path(arguments[0]).read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        on_stderr(f"goldens: cannot read {arguments[0]}: {reason}")
        return 2
    report = compare(cases)
    say(f"{report.cases} cases, {report.fields} fields of the ancestor")
    for difference in DIFFERENCES:
        say(f"{len(report.explained[difference.name]):6d} differ: {difference.name}: {difference.why}")
    for mismatch in report.unexplained:
        say(f"unexplained: {mismatch}")
    for name in report.unused:
        say(f"explains nothing, remove it: {name}")
    return 0 if report.is_good else 1


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
