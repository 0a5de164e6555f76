"""`tooltap drift`: reports where agents' lines deviate from their baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tooltap.cli.common.commands import Check
from tooltap.cli.common.connection import request, socket_option
from tooltap.cli.common.printing import MAX_ID, on_stderr, progress, say, say_json, short
from tooltap.cli.common.recordings import (
    baselines_option,
    guarded_workers,
    jobs_option,
    recorded_stream_options,
    recordings,
    recordings_argument,
    usage_errors,
    worker_errors,
)
from tooltap.daemon.formats import counted

if TYPE_CHECKING:
    from tooltap.traces.drift.drift import Drift, Finding, Report
    from tooltap.traces.recording.reader import Source

FINDINGS = 5
"""Findings that are printed unless all are wanted: a screenful."""
MAX_NAME = 40
"""Code points printed of a provider, version or dialect, which share a line with the agent's figures."""
UNKNOWN = "unknown"
"""A report's provider, version or dialect if neither the lines nor the user state it."""


@click.command(
    "drift",
    cls=Check,
    examples=(
        "tooltap drift",
        "tooltap drift --strict recordings/",
        "tooltap drift --json claude.jsonl | jq .findings",
    ),
)
@recordings_argument(required=False)
@baselines_option
@click.option(
    "--silent-lines",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Raise an alarm after this many lines without a message or a call.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 for notices too, not only for alarms.")
@click.option("--all", "all_findings", is_flag=True, help=f"Print all findings, not only the first {FINDINGS}.")
@click.option("--json", "as_json", is_flag=True, help="Print agents and findings as one JSON object.")
@recorded_stream_options
@jobs_option
@socket_option
@click.pass_context
def command(
    context: click.Context,
    paths: tuple[Path, ...],
    folder: Path | None,
    silent_lines: int,
    strict: bool,
    all_findings: bool,
    as_json: bool,
    dialect: str,
    provider: str | None,
    version: str | None,
    jobs: int,
    socket: Path | None,
) -> None:
    """Show where agents' lines deviate from their baselines.

    The first findings are printed, alarms before notices, and the agents with most of them.

    Each PATH is a trace or a recorded stream, or a folder of .jsonl files, whose manifest.json, if there is one, says
    which files to read and their dialects. Without a PATH, the running daemon reports what it has found.

    An alarm means that something is lost or misread: a field has another name or is gone, a type has changed, lines
    cannot be parsed, results never arrive, a stream gives no events. A notice means something new: a field, a message
    type or a tool that no baseline has. Exit code 0: no alarm, 1: at least one alarm, 2: wrong usage.
    """
    import msgspec
    import orjson

    from tooltap.traces.drift.drift import Report

    if paths and socket is not None:
        raise click.UsageError("PATH and --socket exclude each other: name files or a daemon")
    if paths:
        watch = _Watch(folder, silent_lines, dialect, provider, version)
        report = _watch_recordings(paths, watch, jobs)
    else:
        report = msgspec.convert(request(socket, "stats", part="summary")["drift"], Report)
    if as_json:
        say_json(orjson.dumps(msgspec.to_builtins(report)))
    else:
        _print_report(report, None if all_findings else FINDINGS)
    failing = {"alarm", "notice"} if strict else {"alarm"}
    context.exit(1 if any(finding.severity in failing for finding in report.findings) else 0)


def _watch_recordings(paths: tuple[Path, ...], watch: _Watch, jobs: int) -> Report:
    import msgspec

    from tooltap.traces.drift.drift import Drift, NewFindings
    from tooltap.traces.recording.reader import size_of

    decoder = msgspec.msgpack.Decoder(NewFindings)
    drift = Drift(lambda dialect: [])
    with usage_errors(), worker_errors():
        streams = _sources(paths)
        sizes = [size_of(one.source) for one in streams]
        with (
            progress(sum(sizes), data_on_stdout=False) as advance,
            guarded_workers(watch, streams, jobs=jobs, weigh=lambda one: size_of(one.source)) as workers,
        ):
            for number, size in enumerate(sizes):
                for found in workers.values(number):
                    drift.merge(decoder.decode(found))
                advance(size)
    return drift.report()


class _Recorded(NamedTuple):
    source: Source
    dialect: str | None
    """The dialect that the manifest states; None without a manifest."""


def _sources(paths: tuple[Path, ...]) -> list[_Recorded]:
    """Find the streams in the recordings. Files of the same dialect are opened together, because a stream may continue
    in another file."""
    from tooltap.traces.recording.reader import sources

    by_dialect: dict[str | None, list[Path]] = {}
    for recording in recordings(paths):
        by_dialect.setdefault(recording.dialect, []).append(recording.file)
    return [_Recorded(one, dialect) for dialect, files in by_dialect.items() for one in sources(files)]


class _Watch:
    """Watches recorded streams one by one, and yields the findings of each: `NewFindings` as MessagePack."""

    def __init__(
        self, folder: Path | None, silent_lines: int, dialect: str, provider: str | None, version: str | None
    ) -> None:
        self._folder = folder
        self._silent_lines = silent_lines
        self._dialect = dialect
        self._provider = provider
        self._version = version
        self._drift: Drift | None = None
        """Shared by all streams, because preparing the baselines takes longer than reading a short stream."""

    def __call__(self, recorded: _Recorded) -> Iterator[bytes]:
        import msgspec

        from tooltap.normalizers.stream.normalizer import AUTO
        from tooltap.traces.drift.baselines import PACKAGED, load
        from tooltap.traces.drift.drift import Drift
        from tooltap.traces.drift.watch import watch_stream
        from tooltap.traces.recording.reader import read_stream

        if self._drift is None:
            self._drift = Drift(partial(load, self._folder or PACKAGED), silent_lines=self._silent_lines)
        dialect = self._dialect if self._dialect != AUTO else recorded.dialect or AUTO
        stream = read_stream(recorded.source, dialect)
        watch_stream(self._drift, stream, provider=self._provider, version=self._version)
        yield msgspec.msgpack.encode(self._drift.take())


def _print_report(report: Report, shown: int | None) -> None:
    """Print the first findings, and the agents they are of, those with the most findings first. `shown`: how many of
    each; None for all."""
    import msgspec

    for finding in report.findings[:shown]:
        for line in _describe(finding):
            say(line)
    numbers = Counter((one.dialect, one.provider, one.version) for one in report.findings)
    agents = sorted(report.agents, key=lambda one: -numbers[one.dialect, one.provider, one.version])
    for agent in agents[:shown]:
        on_stderr(_summary(msgspec.to_builtins(agent)))
    rest, further = ([], []) if shown is None else (report.findings[shown:], agents[shown:])
    if rest or further:
        alarms = sum(finding.severity == "alarm" for finding in rest)
        counts = [(alarms, "alarm"), (len(rest) - alarms, "notice"), (len(further), "agent")]
        more = ", ".join(counted(number, what) for number, what in counts if number)
        on_stderr(f"not shown: {more}; --all prints them")
    if report.omitted:
        on_stderr(f"{report.omitted} more findings omitted")


def _describe(finding: Finding) -> Iterator[str]:
    times = f", {finding.count} times" if finding.count > 1 else ""
    agent = _agent(finding.provider, finding.version, finding.dialect)
    others = ", ".join(short(line, MAX_ID) for line in finding.lines[1:])
    more = f" ({others}{', …' * (finding.count > len(finding.lines))})" if others else ""
    first = short(finding.first, MAX_ID)
    yield f"{finding.severity}: {agent}: {finding.kind.replace('-', ' ')} at {first}{times}{more}"
    yield f"  {short(finding.place)}"
    yield f"  {short(finding.text)}"
    yield f"  {short(finding.example)}"


def _agent(provider: str, version: str, dialect: str) -> str:
    if dialect == UNKNOWN:
        return f"{'an unknown agent' if provider == UNKNOWN else short(provider, MAX_NAME)} (dialect unknown)"
    which = "of unknown version" if version == UNKNOWN else short(version, MAX_NAME)
    return f"{short(provider, MAX_NAME)} {which} ({short(dialect, MAX_NAME)})"


def _summary(agent: dict[str, Any]) -> str:
    share = 100 * agent["unparsed"] / agent["lines"] if agent["lines"] else 0
    baseline = agent["baseline"]
    return (
        f"{_agent(agent['provider'], agent['version'], agent['dialect'])}: {counted(agent['streams'], 'stream')},"
        f" {counted(agent['lines'], 'line')}, {agent['unparsed']} unparsed ({share:.1f} %),"
        f" {counted(agent['calls'], 'call')}, {agent['dropped']} without a result;"
        f" {f'compared with {short(baseline)}' if baseline else 'no baseline'}"
    )
