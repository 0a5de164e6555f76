"""Normalizes a folder of recorded streams and reports the class of every line: `make corpus`.

    python -m tooltap.cli.make.corpus FOLDER...

Exit code 1 if there is a problem (`traces/checks/corpus.py`), 2 if a folder cannot be read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import wrap

import msgspec

from tooltap.cli.common.guard import guard
from tooltap.cli.common.printing import on_stderr, say, short
from tooltap.daemon.formats import counted
from tooltap.normalizers.tools.registry import PASS_THROUGH
from tooltap.traces.checks.corpus import Report, Tally, run

__all__ = ["main", "render"]

WIDTH = 110

COLUMNS: dict[str, Callable[[Tally], int]] = {
    "files": lambda tally: tally.files,
    "lines": lambda tally: tally.lines,
    "with events": lambda tally: tally.with_events,
    "unparsed": lambda tally: tally.unparsed.total(),
    "skipped": lambda tally: tally.skipped.total(),
    "raised": lambda tally: tally.exceptions,
    "calls": lambda tally: tally.names.total(),
    "inferred": lambda tally: tally.inferred,
    "results": lambda tally: tally.results,
    "tied": lambda tally: tally.tied,
    "closed": lambda tally: tally.closed,
}


def render(report: Report) -> Iterator[str]:
    """Render the report as lines of text."""
    tallies = sorted(report.tallies.items())
    width = max([len("dialect"), *(len(short(dialect)) for dialect, _ in tallies)])
    yield "  ".join(["dialect".ljust(width), *(f"{name:>8}" for name in COLUMNS)])
    for dialect, tally in tallies:
        figures = (f"{figure(tally):{max(len(name), 8)},}" for name, figure in COLUMNS.items())
        yield "  ".join([short(dialect).ljust(width), *figures])
    for dialect, tally in tallies:
        yield ""
        yield short(dialect)
        yield from _details(tally)
    yield ""
    yield "keys of payloads, in % of calls and of results"
    for tool, filled in sorted(report.payloads.items()):
        yield from _share(f"{tool} input", filled.inputs, filled.calls)
        yield from _share(f"{tool} output", filled.outputs, filled.results)
    if report.missing:
        yield ""
        yield f"no parser for: {_listed(report.missing, 'file')}"
    yield ""
    yield from report.problems
    files = counted(sum(tally.files for _, tally in tallies), "file")
    yield f"{counted(len(report.problems), 'problem')} in {files}" if report.problems else f"{files}, no problem"


def _details(tally: Tally) -> Iterator[str]:
    for title, counts in (
        ("unparsed", tally.unparsed),
        ("skipped", tally.skipped),
        ("names", tally.names),
        ("exit codes", tally.exit_codes),
    ):
        yield from wrap(
            _listed(counts), WIDTH, initial_indent=f"  {title:<12}", subsequent_indent=" " * 14, break_on_hyphens=False
        )
    for name, calls in sorted(tally.passed_through.items()):
        reason = PASS_THROUGH.get(name)
        why = f"{reason.agent}: {reason.why}" if reason else "in no table"
        yield f"  passed through: {short(name)} {calls} ({why})"


def _share(title: str, keys: Counter[str], total: int) -> list[str]:
    shown = ", ".join(f"{short(key)} {100 * number // total}" for key, number in keys.most_common()) or "none"
    return wrap(f"{title} ({total}): {shown}", WIDTH, initial_indent="  ", subsequent_indent=" " * 14)


def _listed(counts: Counter[str] | Counter[int], unit: str = "") -> str:
    listed = (f"{short(name)} {number}{f' {unit}s' if unit else ''}" for name, number in counts.most_common())
    return ", ".join(listed) or "none"


def main(arguments: list[str]) -> int:
    if not arguments:
        on_stderr("usage: python -m tooltap.cli.make.corpus FOLDER...")
        return 2
    try:
        report = run(*map(Path, arguments))
    except (OSError, msgspec.DecodeError) as error:
        on_stderr(f"corpus: {error}")
        return 2
    for line in render(report):
        say(line)
    return 1 if report.problems else 0


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
