"""The work of `tooltap replay`: a trace's records, what the current normalizers make of them, and how that differs from
what a journal holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from tooltap.cli.common.connection import ask, talk
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.stream.bounds import Produced
from tooltap.protocol.filters import Filter
from tooltap.protocol.stats import Statistics
from tooltap.traces.checks.event_diff import EventDiff
from tooltap.traces.recording.reader import TraceReader
from tooltap.traces.recording.record import TraceRecord
from tooltap.traces.recording.replay import Covered, Replay, survey

__all__ = ["TroubleError", "compare", "print_events"]

MAX_NAMES = 200
"""Streams that a filter names; if there are more, all events are read."""


class TroubleError(click.ClickException):
    """It cannot be told what the trace gives, or what differs."""

    exit_code = 2


def print_events(files: list[Path]) -> list[Statistics]:
    """Print what the streams give, and return their statistics. Raises `TroubleError`, `UnknownDialectError`,
    `OSError`."""
    replay = Replay(Limits())
    for record in _records(files):
        _write(replay.feed(record))
    _write(replay.finish())
    return replay.done


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
        raise TroubleError(f"{files[0]} is no trace of tooltap's; `tooltap normalize` reads recorded streams")
    for reader in damaged:
        click.echo(f"tooltap: {reader.path}: {reader.damaged} damaged record(s) left out", err=True)


def _write(outputs: list[Any]) -> None:
    for output in outputs:
        if isinstance(output, Produced):
            sys.stdout.buffer.write(output.body + b"\n")


def compare(files: list[Path], journal: Path | None, socket: Path | None) -> EventDiff:
    """With the journal that is a file, else the daemon's. Raises `TroubleError`, `UnknownDialectError`, `OSError`."""
    covered = survey(_records(files))
    if journal is not None:
        difference = EventDiff(covered, _replayed(files, covered, Limits()))
        _read_file(difference, journal)
    else:
        difference = EventDiff(covered, _replayed(files, covered, _limits(socket)))
        _read_daemon(difference, socket)
    if not difference.seen:
        raise TroubleError("the journal holds no event of the trace's streams")
    difference.finish()
    return difference


def _replayed(files: list[Path], covered: dict[str, Covered], limits: Limits) -> Iterator[bytes]:
    replay = Replay(limits)
    records = (record for path in files for record in TraceReader(path).records())
    for position, record in enumerate(records):
        if position >= covered[record.stream].start:
            yield from (output.body for output in replay.feed(record) if isinstance(output, Produced))


def _read_file(difference: EventDiff, journal: Path) -> None:
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.journal.sqlite.offline import event_bodies

    try:
        for line in event_bodies(journal, _filter(difference)):
            difference.take(line)
    except JournalError as error:
        raise TroubleError(str(error)) from None


def _filter(difference: EventDiff) -> Filter:
    streams = tuple(difference.covered)
    return Filter(stream=streams) if len(streams) <= MAX_NAMES else Filter()


def _limits(socket: Path | None) -> Limits:
    """Those the daemon cuts long texts by."""
    try:
        return msgspec.convert(ask(socket, "stats")["limits"]["stream"], Limits)
    except click.ClickException as error:
        raise TroubleError(error.message) from None


def _read_daemon(difference: EventDiff, socket: Path | None) -> None:
    from tooltap.daemon.client.subscription import subscribe

    async def read() -> None:
        async with subscribe(
            after="start", filter=_filter(difference), follow=False, path=socket, reconnect=False
        ) as lines:
            async for line in lines:
                if isinstance(line, bytes):
                    difference.take(line)

    try:
        talk(read)
    except click.ClickException as error:
        raise TroubleError(error.message) from None
