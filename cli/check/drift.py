"""`tooltap drift`: whether agents still print what they printed when their baselines were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import orjson

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import ask, socket_option
from tooltap.cli.common.recordings import baselines_option, in_words, recordings, recordings_argument, stream_options
from tooltap.cli.common.render import one_line

if TYPE_CHECKING:
    from tooltap.traces.drift.drift import Drift, Finding, Report

__all__ = ["command"]

UNKNOWN = "unknown"
"""What a report says where nobody named the agent, its version or its dialect."""


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
    help="So many lines without a message or a call are an alarm.",
)
@click.option("--strict", is_flag=True, help="Exit code 1 for notices too, not for alarms alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: agents and findings.")
@stream_options
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
    socket: Path | None,
) -> None:
    """Show where agents' streams are not what they were.

    Each PATH is a trace or a recorded stream, or a folder with .jsonl files. Without one, the running daemon says what
    it has found since it was started.

    An alarm is something that is lost or read wrongly: a field that is gone, another type, lines that cannot be read,
    results that never come, a stream that gives nothing. A notice is news: a field, a message type or a tool that no
    baseline has. Exit code 0: no alarm, 1: there is one, 2: wrong usage.
    """
    from tooltap.traces.drift.baselines import PACKAGED, Baseline, load
    from tooltap.traces.drift.drift import Drift, Report

    def baselines(dialect: str) -> list[Baseline]:
        return load(folder or PACKAGED, dialect)

    if paths and socket is not None:
        raise click.UsageError("give files, or the socket of a daemon, not both")
    if paths:
        report = _look_at(Drift(baselines, silent_lines=silent_lines), paths, dialect, provider, version)
    else:
        report = msgspec.convert(ask(socket, "stats")["drift"], Report)
    if as_json:
        click.echo(orjson.dumps(msgspec.to_builtins(report)))
    else:
        _print(report)
    failing = {"alarm", "notice"} if strict else {"alarm"}
    context.exit(1 if any(finding.severity in failing for finding in report.findings) else 0)


def _look_at(drift: Drift, paths: tuple[Path, ...], dialect: str, provider: str | None, version: str | None) -> Report:
    from tooltap.traces.drift.watch import look_at
    from tooltap.traces.recording.streams import read_streams

    with in_words():
        for stream in read_streams([recording.file for recording in recordings(paths)], dialect):
            look_at(drift, stream, provider=provider, version=version)
    return drift.report()


def _print(report: Report) -> None:
    for finding in report.findings:
        for line in _described(finding):
            click.echo(line)
    for agent in report.agents:
        click.echo(_summary(msgspec.to_builtins(agent)), err=True)
    if report.omitted:
        click.echo(f"{report.omitted} more findings are left out", err=True)


def _described(finding: Finding) -> Iterator[str]:
    times = f", {finding.count} times" if finding.count > 1 else ""
    agent = _agent(finding.provider, finding.version, finding.dialect)
    yield f"{finding.severity}: {agent}: {finding.kind.replace('-', ' ')} at {one_line(finding.first)}{times}"
    yield f"  {one_line(finding.place)}"
    yield f"  {one_line(finding.text)}"
    yield f"  {one_line(finding.example)}"


def _agent(provider: str, version: str, dialect: str) -> str:
    if dialect == UNKNOWN:
        return f"{'an unknown agent' if provider == UNKNOWN else provider} (of no known dialect)"
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
