"""`tooltap ingest`: sends recorded or piped lines to the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import daemon_errors, publisher_options, request, socket_option
from tooltap.cli.common.printing import progress, warn
from tooltap.cli.common.recordings import (
    STDIN,
    UnreadableError,
    files_argument,
    input_files,
    input_size,
    last_change,
    not_understood,
    read_chunks,
)
from tooltap.cli.common.statistics import print_statistics, statistics_options
from tooltap.daemon.formats import counted


@click.command(
    "ingest",
    cls=Command,
    examples=(
        "tooltap ingest recordings/",
        "cat claude.jsonl | tooltap ingest --dialect claude-stream",
        "tooltap ingest --stream nightly --stats claude.jsonl",
    ),
)
@files_argument
@click.option("--stream", metavar="ID", help="The id of the stream; only for a single input.")
@publisher_options
@socket_option
@statistics_options
@click.pass_context
def command(
    context: click.Context,
    paths: tuple[str, ...],
    stream: str | None,
    dialect: str,
    provider: str | None,
    session: str | None,
    mcp_servers: tuple[str, ...],
    socket: Path | None,
    stats: bool,
    stats_json: bool,
) -> None:
    """Send recorded or piped lines to the daemon, each file as its own stream.

    Each PATH is a file, a folder of .jsonl files, or "-" for standard input, which is also read if there is no PATH. A
    file that was sent before is resumed after the last line the daemon has. Standard input is a new stream each time.
    Recordings of tapped lines are unwrapped. If some lines of a file are not understood, a sentence says so; if no line
    is, the exit code is 1.
    """
    import secrets

    import msgspec

    from tooltap.daemon.taps.delivery.outbox import StreamOptions
    from tooltap.daemon.taps.source_file import publish_recording
    from tooltap.daemon.taps.stream_ids import recording_id
    from tooltap.protocol.stats import Statistics

    files = input_files(paths)
    if stream is not None and len(files) > 1:
        raise click.UsageError("--stream names one stream, but there are several files: send them one by one")
    request(socket, "ping")  # fail at once, before waiting for input, if there is no daemon
    done: list[Statistics] = []
    is_understood = True
    with progress(sum(map(input_size, files)), data_on_stdout=False) as advance:
        for path in files:
            stream_id = stream or (f"stdin-{secrets.token_hex(8)}" if path == STDIN else recording_id(path))
            options = StreamOptions(stream_id, dialect, provider, session, mcp_servers)
            try:
                with daemon_errors():
                    end = publish_recording(_chunks(path, advance), options, socket, last_change(path))
            except UnreadableError as error:
                warn(str(error))
            else:
                done.append(one := Statistics(**msgspec.structs.asdict(end)))
                if (said := not_understood(path, dialect, one)) is not None:
                    is_understood = False
                    if not stats_json:  # then the statistics say so, and programs read standard error
                        warn(said)
                elif one.unparsed and not (stats or stats_json):
                    name = "standard input" if path == STDIN else path
                    some = f"{one.unparsed:,} of {counted(one.lines, 'line')} not understood"
                    warn(f"{name}: {some}; they are events of the kind `unparsed`")
    print_statistics(done, stats=stats, stats_json=stats_json)
    context.exit(0 if len(done) == len(files) and is_understood else 1)


def _chunks(path: str, advance: Callable[[int], None]) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        for chunk in read_chunks(path):
            yield chunk
            advance(len(chunk))

    return read
