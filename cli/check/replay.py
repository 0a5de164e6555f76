"""`tooltap replay`: runs a trace through the current normalizers, and compares the events with a journal's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, run_client, socket_option
from tooltap.cli.common.printing import MAX_ID, outliving_readers, progress, say, say_json, short, warn, write_events
from tooltap.cli.common.recordings import guarded_workers, input_size, jobs_option, worker_errors
from tooltap.cli.common.statistics import print_statistics, statistics_options
from tooltap.daemon.formats import counted

if TYPE_CHECKING:
    from tooltap.normalizers.core.items import Limits
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.stats import Statistics
    from tooltap.traces.recording.writer import TraceRecord
    from tooltap.traces.replay import (
        Covered,
        EventChange,
        EventDiff,
        FieldChange,
        KindTally,
        ReplayPosition,
        StreamShare,
    )


MAX_NAMES = 200
"""Maximum number of streams that a filter names; for more, all events of the journal are read."""

STEP = 1 << 18
"""Bytes between two reports of progress."""
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
@jobs_option
@socket_option
@statistics_options
@click.pass_context
def command(
    context: click.Context,
    traces: tuple[Path, ...],
    diff: bool,
    journal: Path | None,
    as_json: bool,
    jobs: int,
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
    from tooltap.traces.recording.writer import expand

    try:
        files = expand(traces)
        if diff or journal:
            difference = _compare(files, journal, socket, jobs)
            with outliving_readers():  # the exit code says what was found, whoever reads
                if as_json:
                    say_json(as_json_value(difference))
                else:
                    for line in render(difference):
                        say(line)
            context.exit(DIFFERS if difference.changes else SAME)
        done = _print_events(files, jobs)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _unreadable(error) from None
    print_statistics(done, stats=stats, stats_json=stats_json)


class _End(NamedTuple):
    """Totals of one share of the trace (`StreamShare`)."""

    done: list[tuple[ReplayPosition, Statistics]]
    damaged: list[tuple[Path, int]]
    """Files with their number of damaged records. Equal in all shares, because each reads all files."""
    found: bool
    """Whether the files contain any trace record."""


def _print_events(files: list[Path], jobs: int) -> list[Statistics]:
    """Print the events of all streams, and return the streams' statistics."""
    from tooltap.normalizers.core.items import Limits

    ends: list[_End] = []
    with _replaying(files, Limits(), None, jobs) as replayed:
        for one in replayed:
            if isinstance(one, _End):
                ends.append(one)
            else:
                write_events(one + b"\n")
    _check(files, ends[0])
    return [statistics for _, statistics in sorted((one for end in ends for one in end.done), key=itemgetter(0))]


def _check(files: list[Path], end: _End) -> None:
    """Warn about damaged records. Raises `_ReplayError` if the files are no trace."""
    if not end.found:
        raise _ReplayError(f"{files[0]} is not a trace of tooltap; `tooltap normalize` reads recorded streams")
    for path, number in end.damaged:
        warn(f"{path}: {number} damaged record(s) skipped")


@contextmanager
def _replaying(
    files: list[Path], limits: Limits, covered: dict[str, Covered] | None, jobs: int
) -> Iterator[Iterator[bytes | _End]]:
    """Replay the files in a context: the event lines of all streams in the order of the trace, then the totals (`_End`)
    of each share."""
    from tooltap.daemon.system.workers import WORTH
    from tooltap.traces.replay import StreamShare

    size = sum(input_size(str(path)) for path in files)
    count = jobs if size >= WORTH else 1
    shares = [StreamShare(number, count) for number in range(count)]
    work = partial(_replay, files, limits, covered)
    with (
        progress(size, data_on_stdout=covered is None) as advance,
        worker_errors(),
        guarded_workers(work, shares, jobs=jobs, weigh=lambda share: size) as workers,
    ):
        yield _merged(map(workers.values, range(count)), advance)


def _merged(shares: Iterable[Iterator[_Placed]], advance: Callable[[int], None]) -> Iterator[bytes | _End]:
    for _, found in merge(*shares, key=itemgetter(0)):
        if isinstance(found, _ReplayError):
            raise found
        if isinstance(found, int):
            advance(found)
        elif isinstance(found, _End):
            yield found
        else:
            yield from found


_Placed: TypeAlias = "tuple[ReplayPosition, list[bytes] | int | _End | _ReplayError]"


def _replay(
    files: list[Path], limits: Limits, covered: dict[str, Covered] | None, share: StreamShare
) -> Iterator[_Placed]:
    """Replay a share of the trace, and yield each result with its position. An error is yielded instead of raised, so
    that the events before it are still printed. The first share also yields the number of bytes just read."""
    from tooltap.normalizers.catalog.registry import UnknownDialectError
    from tooltap.traces.replay import END, Replay

    records = _Records(files)
    replay = Replay(limits, share, covered)
    reported = 0
    try:
        for place, lines in replay.lines(records):
            yield place, lines
            if share.number == 0 and records.read - reported >= STEP:
                yield place, records.read - reported
                reported = records.read
    except UnknownDialectError as error:
        yield replay.place, _ReplayError(str(error))
    except OSError as error:
        yield END, _unreadable(error)
    else:
        if share.number == 0:
            yield END, records.read - reported
        yield END, _End(replay.done, records.damaged, records.found)


def _unreadable(error: OSError) -> _ReplayError:
    return _ReplayError(f"{error.filename}: {error.strerror}")


class _Records:
    """The records of all files in order."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self.found = False
        self.damaged: list[tuple[Path, int]] = []
        self.read = 0
        """Bytes read so far, of all files."""

    def __iter__(self) -> Iterator[TraceRecord]:
        from tooltap.traces.recording.reader import TraceReader

        for path in self._files:
            reader = TraceReader(path)
            before = self.read
            for record in reader.records():
                self.found = True
                self.read = before + reader.read
                yield record
            if reader.damaged:
                self.damaged.append((path, reader.damaged))


def _compare(files: list[Path], journal: Path | None, socket: Path | None, jobs: int) -> EventDiff:
    """Compare the replayed events with those in the journal file if there is one, else with the daemon's."""
    from tooltap.normalizers.core.items import Limits
    from tooltap.traces.replay import EventDiff, survey

    records = _Records(files)
    covered = survey(records)
    _check(files, _End([], records.damaged, records.found))
    limits = Limits() if journal is not None else _daemon_limits(socket)
    with _replaying(files, limits, covered, jobs) as replayed:
        difference = EventDiff(covered, (one for one in replayed if isinstance(one, bytes)))
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
    from tooltap.daemon.journal.sqlite.opening import event_bodies

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
        return msgspec.convert(request(socket, "stats", part="summary")["limits"]["stream"], Limits)
    except click.ClickException as error:
        raise _ReplayError(error.message) from None


def _take_from_daemon(difference: EventDiff, socket: Path | None) -> None:
    from tooltap.daemon.client.asynchronous import subscribe

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


SIGNS = {"added": "+", "removed": "-", "changed": "~"}
WIDTH = 60
CONTEXT = 15
"""Code points shown before the first difference of two long values."""


def as_json_value(difference: EventDiff) -> bytes:
    import msgspec

    return msgspec.json.encode(
        {
            "same": not difference.changes,
            "total": difference.total,
            "events": dict(sorted(difference.tallies.items())),
            "missing": _missing(difference),
            "changes": difference.changes,
        }
    )


def render(difference: EventDiff) -> Iterator[str]:
    """Yield the differences as lines of text."""
    import msgspec

    total, tallies = difference.total, sorted(difference.tallies.items())
    for change in difference.changes:
        yield from _change(change)
    if difference.changes:
        yield ""
        width = max(len(short(kind)) for kind, tally in tallies if _differs(tally))
        yield f"{'':{width}}  {'same':>8}{'added':>8}{'removed':>8}{'changed':>8}"
        for kind, tally in tallies:
            if _differs(tally):
                yield f"{short(kind):{width}}  " + "".join(f"{count:8}" for count in msgspec.structs.astuple(tally))
    for stream in _missing(difference):
        yield f"{short(stream, MAX_ID)}: the journal holds none of its events"
    events = sum(msgspec.structs.astuple(total))
    if not difference.changes:
        yield f"{counted(events, 'event')} of {counted(len(difference.seen), 'stream')}, no difference"
    else:
        yield (
            f"{len(difference.changes)} of {counted(events, 'event')} differ:"
            f" {total.added} added, {total.removed} removed, {total.changed} changed"
        )


def _differs(tally: KindTally) -> bool:
    return bool(tally.added or tally.removed or tally.changed)


def _missing(difference: EventDiff) -> list[str]:
    return sorted(difference.covered.keys() - difference.seen)


def _change(change: EventChange) -> Iterator[str]:
    event = f"{short(change.kind)} {short(change.about)}".rstrip()
    yield f"{SIGNS[change.change]} {short(change.stream, MAX_ID)} line {change.line}: {event}"
    if change.whole is not None:
        shown = {key: value for key, value in change.whole.items() if key not in ENVELOPE}
        yield f"    {_shown(shown, 0)}"
    for one in change.fields:
        yield f"    {SIGNS[one.change]} {short(one.path)}: {_values(one)}"


ENVELOPE = frozenset({"seq", "v", "id", "stream", "line", "kind", "session", "protocol", "provider", "dialect", "ts"})
"""Keys that are not shown for an added or removed event."""


def _values(one: FieldChange) -> str:
    if one.change == "added":
        return _shown(one.after, 0)
    if one.change == "removed":
        return _shown(one.before, 0)
    before, after = _text(one.before), _text(one.after)
    start = max(0, _common(before, after) - CONTEXT) if max(len(before), len(after)) > WIDTH else 0
    return f"{_shown(one.before, start)} → {_shown(one.after, start)}"


def _common(before: str, after: str) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )


def _text(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()


def _shown(value: Any, start: int) -> str:
    """The value as JSON on one line, from its code point `start` on."""
    text = _text(value)
    return f"{'…' if start else ''}{short(text[start:], WIDTH)}"
