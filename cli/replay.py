"""`tooltap replay`: a trace through the current normalizers, and what that changes of what the journal holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from tooltap.cli.accounting import accounting_options, report
from tooltap.cli.connection import ask, socket_option, talk
from tooltap.cli.diff import render
from tooltap.normalizers.bounds import Produced
from tooltap.normalizers.items import Limits
from tooltap.normalizers.registry import UnknownDialectError
from tooltap.traces.event_diff import EventDiff
from tooltap.traces.files import expand
from tooltap.traces.reader import TraceReader
from tooltap.traces.record import TraceRecord
from tooltap.traces.replay import Covered, Replay, survey

__all__ = ["command"]

SAME, DIFFERS, TROUBLE = 0, 1, 2


class _Trouble(click.ClickException):
    exit_code = TROUBLE


@click.command("replay")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...")
@click.option("--diff", is_flag=True, help="Compare with the events the running daemon's journal holds.")
@click.option("--journal", type=click.Path(path_type=Path), metavar="FILE", help="Compare with this journal's events.")
@click.option("--json", "as_json", is_flag=True, help="The comparison as one JSON object.")
@socket_option
@accounting_options
@click.pass_context
def command(
    context: click.Context,
    traces: tuple[Path, ...],
    diff: bool,
    journal: Path | None,
    as_json: bool,
    socket: Path | None,
    stats: bool,
    stats_json: bool,
) -> None:
    """Put a trace through the current normalizers.

    Each TRACE is a file, with all that was rotated away from it, or a folder of traces. Its streams come out as event
    lines, under the names and ids they had.

    With --diff or --journal the events are compared instead with those the journal holds: what a new version of
    tooltap changes, before it is used. Exit code 0: nothing, 1: something, 2: it cannot be told.
    """
    if as_json and not (diff or journal):
        raise click.UsageError("--json belongs to --diff or --journal")
    try:
        files = expand(traces)
        if diff or journal:
            difference = _compare(files, journal, socket)
            for line in render(difference, as_json=as_json):
                click.echo(line)
            context.exit(DIFFERS if difference.changes else SAME)
        replay = Replay(Limits())
        for record in _records(files):
            _write(replay.feed(record))
        _write(replay.finish())
    except (UnknownDialectError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise _Trouble(place) from None
    report(replay.done, stats=stats, stats_json=stats_json)


def _records(files: list[Path]) -> Iterator[TraceRecord]:
    """All records in order; what is damaged is said."""
    found = False
    damaged: list[TraceReader] = []
    for path in files:
        reader = TraceReader(path)
        for record in reader.records():
            found = True
            yield record
        damaged += [reader] * (reader.damaged > 0)
    if not found:
        raise _Trouble(f"{files[0]} is no trace of tooltap's; `tooltap normalize` reads recorded streams")
    for reader in damaged:
        click.echo(f"tooltap: {reader.path}: {reader.damaged} damaged record(s) left out", err=True)


def _write(outputs: list[Any]) -> None:
    for output in outputs:
        if isinstance(output, Produced):
            sys.stdout.buffer.write(output.body + b"\n")


def _compare(files: list[Path], journal: Path | None, socket: Path | None) -> EventDiff:
    covered = survey(_records(files))
    if journal is not None:
        difference = EventDiff(covered, _replayed(files, covered, Limits()))
        _read_file(difference, journal)
    else:
        difference = EventDiff(covered, _replayed(files, covered, _limits(socket)))
        _read_daemon(difference, socket)
    if not difference.seen:
        raise _Trouble("the journal holds no event of the trace's streams")
    difference.finish()
    return difference


def _replayed(files: list[Path], covered: dict[str, Covered], limits: Limits) -> Iterator[bytes]:
    replay = Replay(limits)
    records = (record for path in files for record in TraceReader(path).records())
    for position, record in enumerate(records):
        if position >= covered[record.stream].start:
            yield from (output.body for output in replay.feed(record) if isinstance(output, Produced))


def _read_file(difference: EventDiff, journal: Path) -> None:
    from tooltap.daemon.journal import JournalError
    from tooltap.daemon.journal_events import from_file

    try:
        for line in from_file(list(difference.covered), journal):
            difference.take(line)
    except JournalError as error:
        raise _Trouble(str(error)) from None


def _limits(socket: Path | None) -> Limits:
    """Those the daemon cuts long texts by."""
    try:
        return msgspec.convert(ask(socket, "stats")["limits"]["stream"], Limits)
    except click.ClickException as error:
        raise _Trouble(error.message) from None


def _read_daemon(difference: EventDiff, socket: Path | None) -> None:
    from tooltap.daemon.journal_events import from_daemon

    async def read() -> None:
        async for line in from_daemon(list(difference.covered), socket):
            difference.take(line)

    try:
        talk(read)
    except click.ClickException as error:
        raise _Trouble(error.message) from None
