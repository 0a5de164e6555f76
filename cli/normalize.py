"""`tooltap normalize`: raw lines in, event lines out, no daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import click

from tooltap.cli.accounting import accounting_options, report
from tooltap.cli.inputs import STDIN, UnreadableError, read_chunks
from tooltap.cli.progress import progress
from tooltap.daemon.stream_ids import stream_name
from tooltap.normalizers.framing import LongLine, Splitter
from tooltap.normalizers.items import Context, OutputPiece
from tooltap.normalizers.recording import Recording
from tooltap.normalizers.registry import BUILTIN, UnknownDialectError, parser_class
from tooltap.normalizers.stream import AUTO, Output, StreamNormalizer
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Lost

__all__ = ["command"]


@click.command("normalize")
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE]...")
@click.option(
    "--dialect",
    default=AUTO,
    show_default=True,
    help=f"One of {AUTO}, {', '.join(sorted(BUILTIN))}, and what plugins add.",
)
@click.option("--provider", metavar="NAME", help="The agent, where its lines do not say, or say otherwise.")
@click.option("--partials", is_flag=True, help="Previews of unfinished text too.")
@click.option(
    "--outputs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write every body that was cut out of an event to DIR/<outputId>; without this only its beginning is kept.",
)
@accounting_options
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

    Each FILE (standard input if there is none, or for "-") is a stream of its own, named by its base name without
    extension. A recording of tapped lines is read as such. Lines that cannot be read become "unparsed" events.
    """
    if dialect != AUTO:
        try:
            parser_class(dialect)
        except UnknownDialectError as error:
            raise click.BadParameter(str(error), param_hint="--dialect") from None
    if outputs is not None:
        outputs.mkdir(parents=True, exist_ok=True)
    paths = files or (STDIN,)
    streams: set[str] = set()
    done: list[Statistics] = []
    with progress(paths, data_on_stdout=True) as advance:
        for path in paths:
            stream = _unused(stream_name(path), streams)
            normalizer = StreamNormalizer(Context(stream=stream, provider=provider, partials=partials), dialect)
            try:
                _normalize(path, normalizer, outputs, advance)
            except UnreadableError as error:
                click.echo(f"tooltap: {error}", err=True)
            else:
                done.append(normalizer.statistics)
    report(done, stats=stats, stats_json=stats_json)
    context.exit(0 if len(done) == len(paths) else 1)


def _unused(name: str, taken: set[str]) -> str:
    """Two files of one name are two streams."""
    stream = next(one for n in count(1) if (one := name if n == 1 else f"{name}~{n}") not in taken)
    taken.add(stream)
    return stream


def _normalize(path: str, normalizer: StreamNormalizer, outputs: Path | None, advance: Callable[[int], None]) -> None:
    recording = Recording()
    splitter = Splitter(normalizer.context.limits.line_bytes)

    def take(line: bytes | LongLine) -> list[Output]:
        read = recording.read(line)
        if isinstance(read, Lost):
            return normalizer.lost(read.lines, read.bytes, read.reason)
        return [] if read is None else normalizer.feed(*read)

    for chunk in read_chunks(path):
        _write([output for line in splitter.feed(chunk) for output in take(line)], outputs)
        advance(len(chunk))
    last = splitter.finish()
    if last is not None:
        _write(take(last), outputs)
    _write(normalizer.close("end"), outputs)


def _write(produced: list[Output], outputs: Path | None) -> None:
    lines: list[bytes] = []
    for output in produced:
        if not isinstance(output, OutputPiece):
            lines.append(output.body)
        elif outputs is not None:
            _append(outputs / output.output_id, output)
    if lines:
        lines.append(b"")
        sys.stdout.buffer.write(b"\n".join(lines))
        sys.stdout.buffer.flush()


def _append(path: Path, piece: OutputPiece) -> None:
    start = os.O_TRUNC if piece.offset == 0 else os.O_APPEND
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | start, 0o600), "wb") as file:
        file.write(piece.data)
