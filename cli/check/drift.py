"""`tooltap drift`: reports where agents' lines deviate from their baselines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option
from tooltap.cli.common.jobs import jobs_option, worker_errors
from tooltap.cli.common.progress import progress
from tooltap.cli.common.recordings import (
    baselines_option,
    recorded_stream_options,
    recordings,
    recordings_argument,
    usage_errors,
)

if TYPE_CHECKING:
    from tooltap.traces.drift.drift import Drift, Finding, Report
    from tooltap.traces.recording.streams import Source

__all__ = ["command"]

UNKNOWN = "unknown"
"""A report's provider, version or dialect if neither the lines nor the user state it."""


@click.command(
    "drift",
    cls=Command,
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
    as_json: bool,
    dialect: str,
    provider: str | None,
    version: str | None,
    jobs: int,
    socket: Path | None,
) -> None:
    """Show where agents' lines deviate from their baselines.

    Each PATH is a trace or a recorded stream, or a folder of .jsonl files. Without a PATH, the running daemon reports
    what it has found since it started.

    An alarm means that something is lost or misread: a field is missing, a type has changed, lines cannot be parsed,
    results never arrive, a stream gives no events. A notice means something new: a field, a message type or a tool that
    no baseline has. Exit code 0: no alarm, 1: at least one alarm, 2: wrong usage.
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
        report = msgspec.convert(request(socket, "stats")["drift"], Report)
    if as_json:
        click.echo(orjson.dumps(msgspec.to_builtins(report)))
    else:
        _print_report(report)
    failing = {"alarm", "notice"} if strict else {"alarm"}
    context.exit(1 if any(finding.severity in failing for finding in report.findings) else 0)


def _watch_recordings(paths: tuple[Path, ...], watch: _Watch, jobs: int) -> Report:
    import msgspec

    from tooltap.daemon.system.workers import Workers
    from tooltap.traces.drift.drift import Drift, Found
    from tooltap.traces.recording.streams import size_of, sources

    decoder = msgspec.msgpack.Decoder(Found)
    drift = Drift(lambda dialect: [])
    with usage_errors(), worker_errors():
        streams = sources(recording.file for recording in recordings(paths))
        sizes = list(map(size_of, streams))
        with (
            progress(sum(sizes), data_on_stdout=False) as advance,
            Workers(watch, streams, jobs=jobs, weigh=size_of) as workers,
        ):
            for number, size in enumerate(sizes):
                for found in workers.values(number):
                    drift.merge(decoder.decode(found))
                advance(size)
    return drift.report()


class _Watch:
    """Watches one stream after the other, and yields what was found in each."""

    def __init__(
        self, folder: Path | None, silent_lines: int, dialect: str, provider: str | None, version: str | None
    ) -> None:
        self._folder = folder
        self._silent_lines = silent_lines
        self._dialect = dialect
        self._provider = provider
        self._version = version
        self._drift: Drift | None = None
        """One for all streams, because to prepare the baselines takes longer than to read a short stream."""

    def __call__(self, source: Source) -> Iterator[bytes]:
        import msgspec

        from tooltap.traces.drift.baselines import PACKAGED, load
        from tooltap.traces.drift.drift import Drift
        from tooltap.traces.drift.watch import watch_stream
        from tooltap.traces.recording.streams import read_stream

        if self._drift is None:
            self._drift = Drift(partial(load, self._folder or PACKAGED), silent_lines=self._silent_lines)
        stream = read_stream(source, self._dialect)
        watch_stream(self._drift, stream, provider=self._provider, version=self._version)
        yield msgspec.msgpack.encode(self._drift.take())


def _print_report(report: Report) -> None:
    import msgspec

    for finding in report.findings:
        for line in _describe(finding):
            click.echo(line)
    for agent in report.agents:
        click.echo(_summary(msgspec.to_builtins(agent)), err=True)
    if report.omitted:
        click.echo(f"{report.omitted} more findings omitted", err=True)


def _describe(finding: Finding) -> Iterator[str]:
    from tooltap.cli.common.render import one_line

    times = f", {finding.count} times" if finding.count > 1 else ""
    agent = _agent(finding.provider, finding.version, finding.dialect)
    yield f"{finding.severity}: {agent}: {finding.kind.replace('-', ' ')} at {one_line(finding.first)}{times}"
    yield f"  {one_line(finding.place)}"
    yield f"  {one_line(finding.text)}"
    yield f"  {one_line(finding.example)}"


def _agent(provider: str, version: str, dialect: str) -> str:
    if dialect == UNKNOWN:
        return f"{'an unknown agent' if provider == UNKNOWN else provider} (dialect unknown)"
    return f"{provider} {'of unknown version' if version == UNKNOWN else version} ({dialect})"


def _summary(agent: dict[str, Any]) -> str:
    share = 100 * agent["unparsed"] / agent["lines"] if agent["lines"] else 0
    baseline = agent["baseline"]
    return (
        f"{_agent(agent['provider'], agent['version'], agent['dialect'])}: {_counted(agent['streams'], 'stream')},"
        f" {_counted(agent['lines'], 'line')}, {agent['unparsed']} unparsed ({share:.1f} %),"
        f" {_counted(agent['calls'], 'call')}, {agent['dropped']} without a result;"
        f" {f'compared with {baseline}' if baseline else 'no baseline'}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
