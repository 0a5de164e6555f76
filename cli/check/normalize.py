"""`tooltap normalize`: raw lines in, event lines out, no daemon."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import click

from tooltap.cli.common.accounting import accounting_options, report
from tooltap.cli.common.commands import Command
from tooltap.cli.common.inputs import STDIN, UnreadableError
from tooltap.cli.common.options import dialect_option, provider_option
from tooltap.cli.common.progress import progress
from tooltap.normalizers.core.registry import builtin

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
@dialect_option(f"One of auto, {', '.join(sorted(builtin()))}, and what plugins add.", known_here=True)
@provider_option
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
    from tooltap.cli.common.normalizing import normalize
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
            stream = _unused(stream_name(path), streams)
            normalizer = StreamNormalizer(Context(stream=stream, provider=provider, partials=partials), dialect)
            try:
                normalize(path, normalizer, outputs, advance)
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
