"""`tooltap normalize`: turns raw lines into event lines without a daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.inputs import STDIN, UnreadableError, read_chunks
from tooltap.cli.common.options import dialect_option, provider_option
from tooltap.cli.common.progress import progress
from tooltap.cli.common.statistics import print_statistics, statistics_options
from tooltap.normalizers.catalog.registry import builtin

if TYPE_CHECKING:
    from tooltap.normalizers.core.items import OutputChunk
    from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer

__all__ = ["command"]


@click.command(
    "normalize",
    cls=Command,
    examples=(
        "tooltap normalize --stats recordings/*.jsonl > events.jsonl",
        "codex exec --json 'List the files' | tooltap normalize --dialect codex-exec",
    ),
)
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE]...")
@dialect_option(f"One of auto, {', '.join(sorted(builtin()))}, or a dialect of a plugin.", check=True)
@provider_option
@click.option("--partials", is_flag=True, help="Print partials of unfinished texts too.")
@click.option(
    "--outputs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write output bodies to DIR/<outputId>. Without this option the end of a truncated output is lost.",
)
@statistics_options
@click.pass_context
def command(
    context: click.Context,
    files: tuple[str, ...],
    dialect: str,
    provider: str | None,
    partials: bool,
    outputs: Path | None,
    stats: bool,
    stats_json: bool,
) -> None:
    """Turn raw lines into event lines, without a daemon.

    Each FILE (standard input if there is none, or for "-") becomes a stream, named after the file without its
    extension. Recordings of tapped lines are unwrapped. Lines that cannot be parsed become "unparsed" events.
    """
    from tooltap.daemon.taps.stream_ids import stream_name
    from tooltap.normalizers.core.items import Context
    from tooltap.normalizers.stream.normalizer import StreamNormalizer
    from tooltap.protocol.stats import Statistics

    if outputs is not None:
        outputs.mkdir(parents=True, exist_ok=True)
    paths = files or (STDIN,)
    streams: set[str] = set()
    done: list[Statistics] = []
    with progress(paths, data_on_stdout=True) as advance:
        for path in paths:
            stream = _unique(stream_name(path), streams)
            normalizer = StreamNormalizer(Context(stream=stream, provider=provider, partials=partials), dialect)
            try:
                _normalize(path, normalizer, outputs, advance)
            except UnreadableError as error:
                click.echo(f"tooltap: {error}", err=True)
            else:
                done.append(normalizer.statistics)
    print_statistics(done, stats=stats, stats_json=stats_json)
    context.exit(0 if len(done) == len(paths) else 1)


def _unique(name: str, taken: set[str]) -> str:
    """Number the name if it is taken: two files with the same name are two streams."""
    stream = next(one for n in count(1) if (one := name if n == 1 else f"{name}~{n}") not in taken)
    taken.add(stream)
    return stream


def _normalize(path: str, normalizer: StreamNormalizer, outputs: Path | None, advance: Callable[[int], None]) -> None:
    """`outputs`: the folder for output bodies. `advance` is called with the bytes just read."""
    from tooltap.normalizers.wire.framing import Splitter
    from tooltap.traces.recording.feed import RecordingFeed

    feed = RecordingFeed(normalizer).feed
    splitter = Splitter(normalizer.context.limits.line_bytes)
    for chunk in read_chunks(path):
        _write([output for line in splitter.feed(chunk) for output in feed(line)], outputs)
        advance(len(chunk))
    last = splitter.finish()
    if last is not None:
        _write(feed(last), outputs)
    _write(normalizer.close("end"), outputs)


def _write(produced: list[Output], outputs: Path | None) -> None:
    from tooltap.normalizers.core.items import OutputChunk

    lines: list[bytes] = []
    for output in produced:
        if not isinstance(output, OutputChunk):
            lines.append(output.body)
        elif outputs is not None:
            _append(outputs / output.output_id, output)
    if lines:
        lines.append(b"")
        sys.stdout.buffer.write(b"\n".join(lines))
        sys.stdout.buffer.flush()


def _append(path: Path, chunk: OutputChunk) -> None:
    start = os.O_TRUNC if chunk.offset == 0 else os.O_APPEND
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | start, 0o600), "wb") as file:
        file.write(chunk.data)
