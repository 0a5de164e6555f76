"""`tooltap export`: a session as a page to keep, to send, to put beside an issue."""

from __future__ import annotations

import sys
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option, talk
from tooltap.cli.common.export_file import FileSource
from tooltap.cli.common.extras import needs_extra
from tooltap.cli.common.inputs import UnreadableError
from tooltap.cli.read.sessions import list_sessions
from tooltap.daemon.client.connection import Client, DaemonError, connect
from tooltap.daemon.client.subscription import subscribe
from tooltap.protocol.events import AnyEvent, decode
from tooltap.protocol.filters import Filter

if TYPE_CHECKING:
    from tooltap.daemon.web.page.export import Bodies, Body, ExportedPage

__all__ = ["command"]

EACH = 1_048_576
ALL = 67_108_864


@click.command(
    "export",
    cls=Command,
    examples=("tooltap export 0d3f --html -o session.html", "tooltap export --html codex.jsonl > session.html"),
)
@click.argument("session", metavar="SESSION|FILE")
@click.option("--html", is_flag=True, required=True, expose_value=False, help="As one HTML page, all it needs inside.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option(
    "--level",
    type=click.Choice(["title", "summary", "full"]),
    default="summary",
    show_default=True,
    help="How much of each event is open at first; the rest unfolds.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=0),
    default=EACH,
    show_default=True,
    metavar="BYTES",
    help="Images and outputs cut out of events are put into the page up to this size each.",
)
@click.option(
    "--max-bodies", type=click.IntRange(min=0), default=ALL, show_default=True, metavar="BYTES", help="All of them."
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

    It needs neither a daemon nor a network, and has no script. SESSION is its id, as "tooltap sessions" shows it, or as
    much of its beginning as no other has. FILE is a recording of an agent's lines, or events as "tooltap normalize"
    prints them ("-" is standard input); no daemon is needed then. The page is written to standard output.

    \b
        tooltap export --html 5a0c1f4e -o session.html
    """
    if output is None and sys.stdout.isatty():
        raise click.UsageError("say where to: -o FILE")
    with needs_extra("web"):
        from tooltap.daemon.web.page.export import Bodies, ExportedPage
    bodies = Bodies(max_body, max_bodies)
    written = _Output(output)
    if session == "-" or Path(session).is_file():
        with FileSource(session, bodies) as source:
            page = ExportedPage(Path(session).stem, level=level, bodies=bodies)
            try:
                for event, found in source:
                    written.write(page.add(event, found))
            except UnreadableError as error:
                raise click.ClickException(str(error)) from None
            written.finish(page, nothing=f"{session} has no events")
        return
    chosen, title = _chosen(socket, session)
    page = ExportedPage(title, level=level, bodies=bodies)
    talk(lambda: _write_session(page, written, chosen, socket, bodies))
    written.finish(page, nothing=f"session {chosen!r} has no events any more")


class _Output:
    """The file, made when there is something to write."""

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

    def finish(self, page: ExportedPage, nothing: str) -> None:
        """`nothing`: what to say if there was nothing to write."""
        if self._file is None:
            raise click.ClickException(nothing)
        self.write(page.end())
        self._file.flush()
        if self._path is not None:
            self._file.close()


def _chosen(socket: Path | None, session: str) -> tuple[str, str]:
    """Id and title of the session with this id, or of the only one whose id begins so."""
    begun = []
    for one in list_sessions(socket, sys.maxsize):
        if one["session"] == session:
            return session, one.get("title") or session
        if one["session"].startswith(session):
            begun.append(one)
    if len(begun) != 1:
        what = "no session" if not begun else f"{len(begun)} sessions that begin with"
        raise click.ClickException(f"{what} {session!r} in the journal: see tooltap sessions")
    return begun[0]["session"], begun[0].get("title") or begun[0]["session"]


async def _write_session(page: ExportedPage, write: _Output, session: str, socket: Path | None, bodies: Bodies) -> None:
    wanted = Filter(session=(session,))
    async with connect(socket) as client, subscribe(after="start", filter=wanted, follow=False, path=socket) as read:
        async for item in read:
            if isinstance(item, bytes):
                event = decode(item)
                write.write(page.add(event, await _fetched(client, event, bodies)))


async def _fetched(client: Client, event: AnyEvent, bodies: Bodies) -> dict[str, Body]:
    """Of the bodies that the event speaks of those that are still there, and go into the page."""
    from tooltap.daemon.web.page.export import Body, body_ids

    found: dict[str, Body] = {}
    for output_id, size, mime_type in body_ids(event):
        if not bodies.has_room(size):
            continue
        data, total = b"", 1
        try:
            while len(data) < total:
                part = await client.request("output", outputId=output_id, offset=len(data))
                data += part["text"].encode() if "text" in part else b64decode(part["b64"])
                total = part["total"]
        except DaemonError:
            continue  # an expired one
        found[output_id] = Body(data, mime_type)
    return found
