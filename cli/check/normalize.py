"""`tooltap normalize`: turns raw lines into event lines without a daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.options import dialect_option, provider_option
from tooltap.cli.common.printing import flush, progress, warn, write_events
from tooltap.cli.common.recordings import (
    STDIN,
    UnreadableError,
    files_argument,
    guarded_workers,
    input_files,
    input_size,
    jobs_option,
    not_understood,
    read_chunks,
    unique,
    worker_errors,
)
from tooltap.cli.common.statistics import print_statistics, statistics_options
from tooltap.normalizers.catalog.registry import builtin

if TYPE_CHECKING:
    from tooltap.normalizers.core.items import OutputChunk
    from tooltap.normalizers.stream.normalizer import Output
    from tooltap.protocol.stats import Statistics


@click.command(
    "normalize",
    cls=Command,
    examples=(
        "tooltap normalize --stats recordings/ > events.jsonl",
        "codex exec --json 'List the files' | tooltap normalize --dialect codex-exec",
    ),
)
@files_argument
@dialect_option(f"One of auto, {', '.join(sorted(builtin()))}, or a dialect of a plugin.", check=True)
@provider_option
@click.option("--partials", is_flag=True, help="Print partials of unfinished texts too.")
@click.option(
    "--outputs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write output bodies to DIR/<outputId>. Without this option the end of a truncated output is lost.",
)
@jobs_option
@statistics_options
@click.pass_context
def command(
    context: click.Context,
    paths: tuple[str, ...],
    dialect: str,
    provider: str | None,
    partials: bool,
    outputs: Path | None,
    jobs: int,
    stats: bool,
    stats_json: bool,
) -> None:
    """Turn raw lines into event lines, without a daemon.

    Each PATH is a file, a folder of .jsonl files, or "-" for standard input, which is also read if there is no PATH.
    Each file becomes a stream, named after the file without its extension. Recordings of tapped lines are unwrapped.
    Lines that cannot be parsed become "unparsed" events; if all lines of a file do, a sentence says so.
    """
    from tooltap.daemon.taps.stream_ids import stream_name
    from tooltap.protocol.stats import Statistics

    if outputs is not None:
        outputs.mkdir(parents=True, exist_ok=True)
    files = input_files(paths)
    taken: set[str] = set()
    recordings = [_Recording(file, unique(stream_name(file), taken), input_size(file)) for file in files]
    work = partial(
        _normalize,
        dialect=dialect,
        provider=provider,
        partials=partials,
        outputs=outputs,
    )
    done: list[Statistics] = []
    failed = 0
    if STDIN in files:  # it belongs to this process, and is read as it arrives
        jobs = 1
    with (
        progress(sum(one.size for one in recordings), data_on_stdout=True) as advance,
        worker_errors(),
        guarded_workers(work, recordings, jobs=jobs, weigh=attrgetter("size")) as workers,
    ):
        for value in workers:
            if isinstance(value, bytes):
                write_events(value)
                flush()
            elif isinstance(value, int):
                advance(value)
            elif isinstance(value, Statistics):
                done.append(value)
                said = not_understood(files[len(done) + failed - 1], dialect, value)
                if said is not None and not stats_json:
                    warn(said)
            else:
                warn(value)
                failed += 1
    print_statistics(done, stats=stats, stats_json=stats_json)
    context.exit(1 if failed else 0)


class _Recording(NamedTuple):
    path: str
    stream: str
    size: int


def _normalize(
    recording: _Recording, *, dialect: str, provider: str | None, partials: bool, outputs: Path | None
) -> Iterator[bytes | int | Statistics | str]:
    """Yield event lines, the size of each chunk read, and last the statistics, or a sentence that says why the
    recording cannot be read.

    `outputs`: the folder for output bodies.
    """
    from tooltap.normalizers.core.items import Context
    from tooltap.normalizers.stream.normalizer import StreamNormalizer
    from tooltap.normalizers.stream.reset import reason_of
    from tooltap.normalizers.wire.framing import Splitter
    from tooltap.traces.recording.reader import RecordingFeed

    normalizer = StreamNormalizer(Context(stream=recording.stream, provider=provider, partials=partials), dialect)
    recorded = RecordingFeed(normalizer)
    feed = recorded.feed
    splitter = Splitter(normalizer.context.limits.line_bytes)
    produced: list[Output] = []
    try:
        for chunk in read_chunks(recording.path):
            if lines := _lines(feed(splitter.feed(chunk), produced), outputs):
                yield lines
            produced = []
            yield len(chunk)
        if (last := splitter.finish()) is not None:
            feed([last], produced)
        if lines := _lines(produced + recorded.close(), outputs):
            yield lines
    except UnreadableError as error:
        yield str(error)
        return
    except OSError:
        raise
    except Exception as error:  # an internal error, not tied to a line; continue with the other files
        if lines := _lines(produced, outputs):
            yield lines
        where = f"{recording.path}: the lines after line {normalizer.statistics.lines} are left out"
        yield f"{where}: {reason_of(error)}; please report it"
        return
    yield normalizer.statistics


def _lines(produced: list[Output], outputs: Path | None) -> bytes:
    from tooltap.normalizers.core.items import OutputChunk

    lines: list[bytes] = []
    for output in produced:
        if not isinstance(output, OutputChunk):
            lines.append(output.body)
        elif outputs is not None:
            _append(outputs / output.output_id, output)
    if lines:
        lines.append(b"")
    return b"\n".join(lines)


def _append(path: Path, chunk: OutputChunk) -> None:
    from tooltap.traces.recording.own_file import open_own

    with open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb") as file:
        if chunk.offset == 0:
            file.truncate(0)
        file.write(chunk.data)
