"""Normalizes folders of recorded streams and reports the class of every line: `make lab-corpus`.

    python -m tests.kit.corpus FOLDER...

The manifest.json of a folder lists the files (`traces/recording/reader.py`). Files of dialects without a parser are
counted and listed. It is a problem if a line has no class, a parser raised an exception, an event breaks a rule of the
contract (`tooltap.testing`), or a line type of a file that is as recorded is unknown to its dialect.

Exit code 1 if there is a problem, 2 if a folder cannot be read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec

from tooltap.cli.common.guard import guard
from tooltap.cli.common.printing import on_stderr, say, short
from tooltap.daemon.formats import counted
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS, KNOWN_TOOLS, PASS_THROUGH
from tooltap.protocol.events import Event, ToolCall, ToolResult, ToolUpdate, Unparsed
from tooltap.testing import ContractError, Line, check_run, read_recording
from tooltap.traces.recording.reader import ManifestRow, read_manifest

UNRECOGNISED = "(not recognised)"
KNOWN_NAMES = frozenset(KNOWN_TOOLS)


@dataclass
class Tally:
    """The counts of one dialect."""

    files: int = 0
    lines: int = 0
    with_events: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)
    """Reason -> lines."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason -> lines."""
    names: Counter[str] = field(default_factory=Counter)
    """Canonical name -> calls."""
    passed_through: Counter[str] = field(default_factory=Counter)
    """Names without a canonical name -> calls."""
    inferred: int = 0
    """Calls that no line opened: plans, diffs, results of unknown calls."""
    results: int = 0
    tied: int = 0
    """Results whose call came before."""
    closed: int = 0
    """Synthetic results, of calls that were left open."""
    exit_codes: Counter[int] = field(default_factory=Counter)
    exceptions: int = 0


@dataclass
class Filled:
    """How often each key occurs in a canonical tool's payloads."""

    calls: int = 0
    inputs: Counter[str] = field(default_factory=Counter)
    results: int = 0
    outputs: Counter[str] = field(default_factory=Counter)


@dataclass
class Report:
    tallies: dict[str, Tally] = field(default_factory=dict)
    payloads: dict[str, Filled] = field(default_factory=dict)
    """Canonical tool -> its keys, over all dialects."""
    missing: Counter[str] = field(default_factory=Counter)
    """Dialects without a parser -> files."""
    problems: list[str] = field(default_factory=list)


def run(*folders: Path) -> Report:
    """Normalize the recordings of folders. Raises `OSError` or `msgspec.DecodeError` if a manifest or a file cannot be
    read."""
    report = Report()
    for folder in folders:
        for row in read_manifest(folder):
            if row.dialect in (AUTO, *dialects()):
                _account(report, folder, row)
            else:
                report.missing[row.dialect] += 1
    return report


def _account(report: Report, folder: Path, row: ManifestRow) -> None:
    lines = read_recording((folder / row.file).read_bytes())
    normalizer = StreamNormalizer(Context(stream="corpus", provider=row.provider), row.asked)
    events = [output.event for output in _feed(normalizer, lines) if isinstance(output, Produced)]
    tally = report.tallies.setdefault(normalizer.dialect or UNRECOGNISED, Tally())
    _count(tally, normalizer, events)
    _count_keys(report.payloads, events)
    try:
        check_run(normalizer, events, len(lines))
    except ContractError as error:
        report.problems.append(f"{row.file}: {error}")
    if not row.is_as_recorded:
        return
    unknown = [event for event in events if isinstance(event, Unparsed) and event.reason == "unknown-type"]
    report.problems += [f"{row.file}: line {event.line} has an unknown type: {event.text}" for event in unknown]


def _feed(normalizer: StreamNormalizer, lines: list[Line]) -> Iterator[Output]:
    for line in lines:
        yield from normalizer.feed(line.data, line.t, line.direction)
    yield from normalizer.close("end")


def _count(tally: Tally, normalizer: StreamNormalizer, events: list[Event]) -> None:
    statistics = normalizer.statistics
    tally.files += 1
    tally.lines += statistics.lines
    tally.with_events += statistics.with_events
    tally.skipped.update(statistics.skipped)
    shown: set[str] = set()
    for event in events:
        if isinstance(event, Unparsed):
            tally.unparsed[event.reason] += 1
            tally.exceptions += event.reason.startswith("parser-error")
        elif isinstance(event, ToolCall):
            shown.add(event.call_id)
            tally.inferred += event.synthetic
            tally.names[event.name] += 1
            if event.name not in KNOWN_NAMES and not event.name.startswith("mcp__"):
                tally.passed_through[event.name] += 1
        elif isinstance(event, ToolResult):
            tally.results += 1
            tally.tied += event.call_id in shown
            tally.closed += event.synthetic
            if isinstance(code := event.output.get("exit_code"), int):
                tally.exit_codes[code] += 1


def _count_keys(payloads: dict[str, Filled], events: list[Event]) -> None:
    last: dict[str, ToolCall | ToolUpdate] = {}
    for event in events:
        if isinstance(event, ToolCall) or (isinstance(event, ToolUpdate) and event.input is not None):
            last[event.call_id] = event
        elif isinstance(event, ToolResult) and not event.synthetic and event.name in CANONICAL_TOOLS:
            filled = payloads.setdefault(event.name, Filled())
            filled.results += 1
            filled.outputs.update(_own_keys(event.output))
    for event in last.values():
        if event.name in CANONICAL_TOOLS:
            filled = payloads.setdefault(event.name, Filled())
            filled.calls += 1
            filled.inputs.update(_own_keys(event.input or {}))


def _own_keys(payload: dict[str, Any]) -> Iterator[str]:
    return (key for key in payload if not key.startswith("_"))


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
        on_stderr("usage: python -m tests.kit.corpus FOLDER...")
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
