"""`tooltap ingest`: sends recorded or piped lines to the daemon, or the sessions that an ACP agent has stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from tooltap.daemon.taps.acp_store import AcpStore, Limits, StoredSession
    from tooltap.protocol.stats import Statistics

ACP_SECONDS, ACP_SESSIONS, ACP_BYTES = 120.0, 1_000, 268_435_456


@click.command(
    "ingest",
    cls=Command,
    examples=(
        "tooltap ingest recordings/",
        "cat claude.jsonl | tooltap ingest --dialect claude-stream",
        "tooltap ingest --stream nightly --stats claude.jsonl",
        "tooltap ingest --acp -- opencode acp",
    ),
)
@files_argument
@click.option("--stream", metavar="ID", help="The id of the stream; only for a single input.")
@click.option("--acp", is_flag=True, help="Read the stored sessions of an ACP agent: PATH... is the command for it.")
@click.option(
    "--acp-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=ACP_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the agent may take for an answer, such as a whole session.",
)
@click.option(
    "--acp-sessions",
    type=click.IntRange(min=1),
    default=ACP_SESSIONS,
    show_default=True,
    metavar="N",
    help="Read at most so many sessions: those that the agent lists first.",
)
@click.option(
    "--acp-bytes",
    type=click.IntRange(min=1),
    default=ACP_BYTES,
    show_default=True,
    metavar="BYTES",
    help="Leave out a session for which the agent sends more.",
)
@publisher_options
@socket_option
@statistics_options
@click.pass_context
def command(
    context: click.Context,
    paths: tuple[str, ...],
    stream: str | None,
    acp: bool,
    acp_seconds: float,
    acp_sessions: int,
    acp_bytes: int,
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

    With --acp, the words after "--" are a command that starts an agent which speaks ACP. It is started, lists its
    sessions, and loads them one by one, without any prompt. Sessions that the journal has from elsewhere are left out;
    those that have grown since are continued.
    """
    import secrets

    import msgspec

    from tooltap.daemon.taps.delivery.outbox import StreamOptions
    from tooltap.daemon.taps.source_file import publish_recording
    from tooltap.daemon.taps.stream_ids import recording_id
    from tooltap.protocol.stats import Statistics

    done: list[Statistics] = []
    if acp:
        from tooltap.daemon.taps.acp_store import Limits

        if stream is not None or session is not None or dialect != "auto":
            raise click.UsageError("--acp reads several sessions, so --stream, --session and --dialect do not fit")
        if not paths:
            raise click.UsageError("--acp needs the command of an agent: tooltap ingest --acp -- COMMAND")
        request(socket, "ping")
        limits = Limits(acp_seconds, acp_sessions, acp_bytes)
        is_whole = _ingest_sessions(paths, limits, provider, mcp_servers, socket, done)
        print_statistics(done, stats=stats, stats_json=stats_json)
        context.exit(0 if is_whole else 1)
    files = input_files(paths)
    if stream is not None and len(files) > 1:
        raise click.UsageError("--stream names one stream, but there are several files: send them one by one")
    request(socket, "ping")  # fail at once, before waiting for input, if there is no daemon
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


def _ingest_sessions(
    command: tuple[str, ...],
    limits: Limits,
    provider: str | None,
    mcp_servers: tuple[str, ...],
    socket: Path | None,
    done: list[Statistics],
) -> bool:
    """Send the sessions that an ACP agent has stored. Return whether all were read."""
    from tooltap.daemon.taps.acp_store import AcpStore, AcpStoreError, HistoryError

    is_whole, elsewhere = True, 0
    try:
        with AcpStore(command, limits) as store:
            sessions = store.sessions()
            if store.more:
                warn(f"{store.name} has more sessions: --acp-sessions says how many are read")
                is_whole = False
            with progress(len(sessions), data_on_stdout=False) as advance:
                for one in sessions:
                    advance(1)
                    known = request(socket, "sessions", limit=1, session=[one.session], empty=True)["sessions"]
                    if known and store.stream_of(one) not in known[0]["streams"]:
                        elsewhere += 1
                        continue
                    try:
                        done.append(_ingest_session(store, one, provider, mcp_servers, socket))
                    except HistoryError as error:
                        warn(str(error))
                        is_whole = False
                        if error.restarts:
                            store.restart()
    except AcpStoreError as error:
        raise click.ClickException(str(error)) from None
    read = f"{counted(len(done), 'session')} read"
    warn(f"{read}; {elsewhere:,} left out that the journal has from elsewhere" if elsewhere else read)
    return is_whole


def _ingest_session(
    store: AcpStore, session: StoredSession, provider: str | None, mcp_servers: tuple[str, ...], socket: Path | None
) -> Statistics:
    import msgspec

    from tooltap.daemon.client.asynchronous import OtherInputError
    from tooltap.daemon.taps.acp_store import CHUNK, HistoryError
    from tooltap.daemon.taps.delivery.outbox import StreamOptions
    from tooltap.daemon.taps.source_file import publish_once
    from tooltap.protocol.stats import Statistics

    options = StreamOptions(store.stream_of(session), "acp-stored", provider, session.session, mcp_servers)
    with store.history(session) as lines, daemon_errors():
        try:
            end = publish_once(iter(lambda: lines.read(CHUNK), b""), options, socket, session.updated)
        except OtherInputError:
            raise HistoryError(
                f"session {session.session} is not what it was when it was read before: what is new of it is left out"
            ) from None
    return Statistics(**msgspec.structs.asdict(end))


def _chunks(path: str, advance: Callable[[int], None]) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        for chunk in read_chunks(path):
            yield chunk
            advance(len(chunk))

    return read
