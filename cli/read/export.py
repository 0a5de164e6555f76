"""`tooltap export`: writes a session as one self-contained HTML page."""

from __future__ import annotations

import sys
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import run_client, socket_option
from tooltap.cli.common.inputs import UnreadableError, read_chunks
from tooltap.cli.common.optional_dependencies import require_extra
from tooltap.cli.read.sessions import list_sessions

if TYPE_CHECKING:
    from tooltap.daemon.client.connection import Client
    from tooltap.daemon.web.page.export import Bodies, Body, ExportedPage
    from tooltap.protocol.events import AnyEvent

__all__ = ["command"]

MAX_BODY = 1_048_576
MAX_BODIES = 67_108_864


@click.command(
    "export",
    cls=Command,
    examples=("tooltap export 0d3f --html -o session.html", "tooltap export --html codex.jsonl > session.html"),
)
@click.argument("session", metavar="SESSION|FILE")
@click.option("--html", is_flag=True, required=True, expose_value=False, help="Write one self-contained HTML page.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)
@click.option(
    "--level",
    type=click.Choice(["title", "summary", "full"]),
    default="summary",
    show_default=True,
    help="How much of each event is open at first; the rest can be unfolded.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=0),
    default=MAX_BODY,
    show_default=True,
    metavar="BYTES",
    help="Include images and output bodies up to this size each.",
)
@click.option(
    "--max-bodies",
    type=click.IntRange(min=0),
    default=MAX_BODIES,
    show_default=True,
    metavar="BYTES",
    help="Include images and output bodies up to this size in total.",
)
@socket_option
def command(
    session: str,
    output: Path | None,
    level: Any,
    max_body: int,
    max_bodies: int,
    socket: Path | None,
) -> None:
    """Write a session as a page that opens in any browser.

    The page needs neither a daemon nor a network, and contains no script. SESSION is a session id, as "tooltap
    sessions" shows it, or an unambiguous prefix of it. FILE is a recording of an agent's lines, or events as "tooltap
    normalize" prints them ("-" is standard input); reading a FILE needs no daemon. The page is written to standard
    output.

    \b
        tooltap export --html 5a0c1f4e -o session.html
    """
    if output is None and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal: name a file with -o FILE")
    with require_extra("web"):
        from tooltap.daemon.web.page.export import Bodies, ExportedPage
        from tooltap.daemon.web.page.export_source import FileSource
    from tooltap.daemon.taps.stream_ids import stream_name

    bodies = Bodies(max_body, max_bodies)
    file = _OutputFile(output)
    if session == "-" or Path(session).is_file():
        with FileSource(stream_name(session), read_chunks(session), bodies) as source:
            page = ExportedPage(Path(session).stem, level=level, bodies=bodies)
            try:
                for event, found in source:
                    file.write(page.add(event, found))
            except UnreadableError as error:
                raise click.ClickException(str(error)) from None
            file.finish(page, if_empty=f"{session} has no events")
        return
    session_id, title = _find_session(socket, session)
    page = ExportedPage(title, level=level, bodies=bodies)
    run_client(lambda: _write_session(page, file, session_id, socket, bodies))
    file.finish(page, if_empty=f"session {session_id!r} has no events any more")


class _OutputFile:
    """The file of the page, created with the first write."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, html: str) -> None:
        try:
            if self._file is None:
                self._file = sys.stdout.buffer if self._path is None else self._path.open("wb")
            self._file.write(html.encode())
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise click.ClickException(f"{self._path}: {error.strerror}") from None

    def finish(self, page: ExportedPage, if_empty: str) -> None:
        """`if_empty`: the error message if nothing was written."""
        if self._file is None:
            raise click.ClickException(if_empty)
        self.write(page.end())
        self._file.flush()
        if self._path is not None:
            self._file.close()


def _find_session(socket: Path | None, session: str) -> tuple[str, str]:
    """Id and title of the session with this id, or of the only session whose id starts with it."""
    matches = []
    for one in list_sessions(socket, sys.maxsize):
        if one["session"] == session:
            return session, one.get("title") or session
        if one["session"].startswith(session):
            matches.append(one)
    if len(matches) != 1:
        what = "no session" if not matches else f"{len(matches)} sessions whose ids start with"
        raise click.ClickException(f"the journal has {what} {session!r}; list them with `tooltap sessions`")
    return matches[0]["session"], matches[0].get("title") or matches[0]["session"]


async def _write_session(
    page: ExportedPage, file: _OutputFile, session: str, socket: Path | None, bodies: Bodies
) -> None:
    from tooltap.daemon.client.connection import connect
    from tooltap.daemon.client.subscription import subscribe
    from tooltap.protocol.events import decode
    from tooltap.protocol.filters import Filter

    wanted = Filter(session=(session,))
    async with connect(socket) as client, subscribe(after="start", filter=wanted, follow=False, path=socket) as items:
        async for item in items:
            if isinstance(item, bytes):
                event = decode(item)
                file.write(page.add(event, await _fetch_bodies(client, event, bodies)))


async def _fetch_bodies(client: Client, event: AnyEvent, bodies: Bodies) -> dict[str, Body]:
    """The event's output bodies that are still stored and fit into the page, by output id."""
    from tooltap.daemon.client.greeting import DaemonError
    from tooltap.daemon.web.page.export import Body, body_ids

    found: dict[str, Body] = {}
    for output_id, size, mime_type in body_ids(event):
        if not bodies.has_room(size):
            continue
        data, total = b"", 1
        try:
            while len(data) < total:
                chunk = await client.request("output", outputId=output_id, offset=len(data))
                data += chunk["text"].encode() if "text" in chunk else b64decode(chunk["b64"])
                total = chunk["total"]
        except DaemonError:
            continue  # the body has expired
        found[output_id] = Body(data, mime_type)
    return found
