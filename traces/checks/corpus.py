"""Normalizes a folder of recorded streams and reports the class of every line. `cli/make/corpus.py` prints the report.

The manifest.json of a folder lists the files (`traces/recording/manifest.py`). Files of dialects without a parser are
counted and listed. It is a problem if a line has no class, a parser raised an exception, an event breaks a rule of the
contract (`normalizers/stream/contract.py`), or a line type of a file that is as recorded is unknown to its dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.contract import ContractError, Line, check_run, read_recording
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS, KNOWN_TOOLS
from tooltap.protocol.events import Event, ToolCall, ToolResult, ToolUpdate, Unparsed
from tooltap.traces.recording.manifest import Row, read_manifest

__all__ = ["Report", "Tally", "run"]

UNRECOGNISED = "(not recognised)"
KNOWN_NAMES = frozenset(KNOWN_TOOLS)


@dataclass
class Tally:
    """The counts of one dialect."""

    files: int = 0
    lines: int = 0
    with_events: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)
    """By reason."""
    skipped: Counter[str] = field(default_factory=Counter)
    """By reason."""
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
    """By canonical tool, over all dialects."""
    missing: Counter[str] = field(default_factory=Counter)
    """Dialects without a parser -> files."""
    problems: list[str] = field(default_factory=list)


def run(*folders: Path) -> Report:
    """Raises `OSError` or `msgspec.DecodeError` if a manifest or a file cannot be read."""
    report = Report()
    for folder in folders:
        for row in read_manifest(folder):
            if row.dialect in (AUTO, *dialects()):
                _account(report, folder, row)
            else:
                report.missing[row.dialect] += 1
    return report


def _account(report: Report, folder: Path, row: Row) -> None:
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
