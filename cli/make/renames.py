"""Renames every field and type in recorded streams, and reports which of it drift detection finds: `make lab-renames`.

    python -m tooltap.cli.make.renames FOLDER...

Exit code 1 if a stream as it is gives an alarm, or if an expected field was renamed without one; 2 if a folder cannot
be read (`traces/drift/renames.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tooltap.cli.common.guard import guard
from tooltap.cli.common.printing import on_stderr, say
from tooltap.traces.drift.renames import Report, run

__all__ = ["main", "render"]


def render(report: Report) -> Iterator[str]:
    """Render the report as lines of text."""
    yield from (f"alarm: {one}" for one in report.alarms)
    yield from (f"missed: {one}" for one in report.missed)
    for kind, number in sorted(report.renames.items()):
        counts = (("found", report.found[kind]), ("as alarm", report.alarmed[kind]))
        shares = (f"{count} {how} ({count / number:.2%})" for how, count in counts)
        yield f"{kind}: {number} renamed, {', '.join(shares)}"
    yield f"{len(report.alarms)} alarms of streams as they are"


def main(arguments: list[str]) -> int:
    if not arguments:
        on_stderr("usage: python -m tooltap.cli.make.renames FOLDER...")
        return 2
    try:
        report = run(map(Path, arguments))
    except (OSError, msgspec.DecodeError) as error:
        on_stderr(f"renames: {error}")
        return 2
    for line in render(report):
        say(line)
    kind = "expected fields"
    return 1 if report.alarms or report.alarmed[kind] < report.renames[kind] else 0


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
