"""`tooltap ingest`: recorded or piped lines go to the daemon."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from tooltap.cli.common.accounting import accounting_options, report
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import ask, in_words, socket_option, stream_options
from tooltap.cli.common.inputs import STDIN, UnreadableError, read_chunks
from tooltap.cli.common.progress import progress

__all__ = ["command"]


@click.command(
    "ingest",
    cls=Command,
    examples=(
        "tooltap ingest recordings/*.jsonl",
        "cat claude.jsonl | tooltap ingest --dialect claude-stream",
        "tooltap ingest --stream nightly --stats claude.jsonl",
    ),
)
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE]...")
@click.option("--stream", metavar="ID", help="The stream's id; for a single input.")
@stream_options
@socket_option
@accounting_options
@click.pass_context
def command(
    context: click.Context,
    files: tuple[str, ...],
    stream: str | None,
    dialect: str,
    provider: str | None,
    session: str | None,
    mcp_servers: tuple[str, ...],
    socket: Path | None,
    stats: bool,
    stats_json: bool,
) -> None:
    """Feed recorded or piped lines to the daemon, each file a stream of its own.

    A FILE that has been fed before is gone on with after the last line the daemon has; standard input (if there is no
    FILE, or for "-") is a new stream each time. A recording of tapped lines is read as such.
    """
    import msgspec

    from tooltap.daemon.taps.delivery.outbox import StreamOptions
    from tooltap.daemon.taps.source_file import publish_recording
    from tooltap.daemon.taps.stream_ids import recording_id
    from tooltap.protocol.stats import Statistics

    paths = files or (STDIN,)
    if stream is not None and len(paths) > 1:
        raise click.UsageError("--stream names one stream, but there are several files")
    ask(socket, "ping")  # without a daemon there is no point in waiting for input
    done: list[Statistics] = []
    with progress(paths, data_on_stdout=False) as advance:
        for path in paths:
            stream_id = stream or (f"stdin-{secrets.token_hex(8)}" if path == STDIN else recording_id(path))
            options = StreamOptions(stream_id, dialect, provider, session, mcp_servers)
            try:
                with in_words():
                    end = publish_recording(_chunks(path, advance), options, socket)
            except UnreadableError as error:
                click.echo(f"tooltap: {error}", err=True)
            else:
                done.append(Statistics(**msgspec.structs.asdict(end)))
    report(done, stats=stats, stats_json=stats_json)
    context.exit(0 if len(done) == len(paths) else 1)


def _chunks(path: str, advance: Callable[[int], None]) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        for chunk in read_chunks(path):
            yield chunk
            advance(len(chunk))

    return read
