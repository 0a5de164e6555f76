"""`tooltap replay`: runs a trace through the current normalizers, and compares the events with a journal's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, run_client, socket_option
from tooltap.cli.common.statistics import print_statistics, statistics_options

if TYPE_CHECKING:
    from tooltap.normalizers.core.items import Limits
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.stats import Statistics
    from tooltap.traces.recording.reader import TraceReader
    from tooltap.traces.recording.record import TraceRecord
    from tooltap.traces.replay.event_diff import EventDiff

__all__ = ["command"]

MAX_NAMES = 200
"""Streams that a filter names; if there are more, all events are read."""

SAME, DIFFERS = 0, 1


class _ReplayError(click.ClickException):
    """The trace cannot be replayed, or cannot be compared."""

    exit_code = 2


@click.command(
    "replay",
    cls=Command,
    examples=(
        "tooltap replay traces/ > events.jsonl",
        "tooltap replay --diff traces/",
        "tooltap replay --journal journal.db --json trace.jsonl",
    ),
)
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...")
@click.option("--diff", is_flag=True, help="Compare with the journal of the running daemon.")
@click.option("--journal", type=click.Path(path_type=Path), metavar="FILE", help="Compare with the journal in FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON object.")
@socket_option
@statistics_options
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
    """Run a trace through the current normalizers.

    Each TRACE is a file, together with the files rotated away from it, or a folder of traces. The events of its streams
    are printed with the stream names and ids they had.

    With --diff or --journal the events are not printed but compared with those in a journal. This shows what a new
    version of tooltap changes before you use it. Exit code 0: no difference, 1: differences, 2: no comparison possible.
    """
    if as_json and not (diff or journal):
        raise click.UsageError("--json needs --diff or --journal")
    from tooltap.cli.check.replay_diff import render
    from tooltap.normalizers.catalog.registry import UnknownDialectError
    from tooltap.traces.recording.files import expand

    try:
        files = expand(traces)
        if diff or journal:
            difference = _compare(files, journal, socket)
            for line in render(difference, as_json=as_json):
                click.echo(line)
            context.exit(DIFFERS if difference.changes else SAME)
        done = _print_events(files)
    except (UnknownDialectError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise _ReplayError(reason) from None
    print_statistics(done, stats=stats, stats_json=stats_json)


def _print_events(files: list[Path]) -> list[Statistics]:
    """Print the events of all streams, and return the streams' statistics."""
    from tooltap.normalizers.core.items import Limits
    from tooltap.traces.replay.replay import Replay

    replay = Replay(Limits())
    for record in _records(files):
        _write(replay.feed(record))
    _write(replay.finish())
    return replay.done


def _write(outputs: list[Any]) -> None:
    from tooltap.normalizers.core.items import Produced

    for output in outputs:
        if isinstance(output, Produced):
            sys.stdout.buffer.write(output.body + b"\n")


def _records(files: list[Path]) -> Iterator[TraceRecord]:
    """The records of all files in order; after the last one, warn about damaged records."""
    from tooltap.traces.recording.reader import TraceReader

    found = False
    damaged: list[TraceReader] = []
    for path in files:
        reader = TraceReader(path)
        for record in reader.records():
            found = True
            yield record
        damaged += [reader] * (reader.damaged > 0)
    if not found:
        raise _ReplayError(f"{files[0]} is not a trace of tooltap; `tooltap normalize` reads recorded streams")
    for reader in damaged:
        click.echo(f"tooltap: {reader.path}: {reader.damaged} damaged record(s) skipped", err=True)


def _compare(files: list[Path], journal: Path | None, socket: Path | None) -> EventDiff:
    """Compare the replayed events with those in the journal file if there is one, else with the daemon's."""
    from tooltap.normalizers.core.items import Limits
    from tooltap.traces.recording.reader import TraceReader
    from tooltap.traces.replay.event_diff import EventDiff
    from tooltap.traces.replay.replay import replay_covered, survey

    covered = survey(_records(files))
    limits = Limits() if journal is not None else _daemon_limits(socket)
    records = (record for path in files for record in TraceReader(path).records())
    difference = EventDiff(covered, replay_covered(records, covered, limits))
    if journal is not None:
        _take_from_file(difference, journal)
    else:
        _take_from_daemon(difference, socket)
    if not difference.seen:
        raise _ReplayError("the journal holds no event of the trace's streams")
    difference.finish()
    return difference


def _take_from_file(difference: EventDiff, journal: Path) -> None:
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.journal.sqlite.offline import event_bodies

    try:
        for line in event_bodies(journal, _streams_of(difference)):
            difference.take(line)
    except JournalError as error:
        raise _ReplayError(str(error)) from None


def _streams_of(difference: EventDiff) -> Filter:
    from tooltap.protocol.filters import Filter

    streams = tuple(difference.covered)
    return Filter(stream=streams) if len(streams) <= MAX_NAMES else Filter()


def _daemon_limits(socket: Path | None) -> Limits:
    """The limits by which the daemon truncates long texts."""
    import msgspec

    from tooltap.normalizers.core.items import Limits

    try:
        return msgspec.convert(request(socket, "stats")["limits"]["stream"], Limits)
    except click.ClickException as error:
        raise _ReplayError(error.message) from None


def _take_from_daemon(difference: EventDiff, socket: Path | None) -> None:
    from tooltap.daemon.client.subscription import subscribe

    async def read() -> None:
        async with subscribe(
            after="start", filter=_streams_of(difference), follow=False, path=socket, reconnect=False
        ) as lines:
            async for line in lines:
                if isinstance(line, bytes):
                    difference.take(line)

    try:
        run_client(read)
    except click.ClickException as error:
        raise _ReplayError(error.message) from None
