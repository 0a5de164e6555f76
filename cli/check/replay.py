"""`tooltap replay`: a trace through the current normalizers, and what that changes of what the journal holds."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.accounting import accounting_options, report
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option

__all__ = ["command"]

SAME, DIFFERS = 0, 1


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
    from tooltap.cli.common.diff import render
    from tooltap.cli.common.replaying import TroubleError, compare, print_events
    from tooltap.normalizers.core.registry import UnknownDialectError
    from tooltap.traces.recording.files import expand

    try:
        files = expand(traces)
        if diff or journal:
            difference = compare(files, journal, socket)
            for line in render(difference, as_json=as_json):
                click.echo(line)
            context.exit(DIFFERS if difference.changes else SAME)
        done = print_events(files)
    except (UnknownDialectError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise TroubleError(place) from None
    report(done, stats=stats, stats_json=stats_json)
