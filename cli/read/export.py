"""`tooltap export`: writes sessions as self-contained HTML pages."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import run_client, socket_option
from tooltap.cli.common.inputs import STDIN, UnreadableError, input_size, read_chunks
from tooltap.cli.common.jobs import jobs_option, worker_errors
from tooltap.cli.common.optional_dependencies import require_extra
from tooltap.cli.common.progress import progress
from tooltap.cli.common.recordings import input_files, unique
from tooltap.cli.read.sessions import list_sessions

if TYPE_CHECKING:
    from tooltap.daemon.client.connection import Client
    from tooltap.daemon.web.page.export import Bodies, Body, ExportedPage
    from tooltap.protocol.events import AnyEvent

__all__ = ["command"]

MAX_BODY = 1_048_576
MAX_BODIES = 67_108_864
PER_PAGE = 1 << 20
"""What it takes to write the page of a session whose size is not known, in bytes of a recording."""


@click.command(
    "export",
    cls=Command,
    examples=(
        "tooltap export 0d3f --html -o session.html",
        "tooltap export --html codex.jsonl > session.html",
        "tooltap export --html recordings/ -o pages",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SESSION|PATH...")
@click.option("--html", is_flag=True, required=True, expose_value=False, help="Write self-contained HTML pages.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write to this file instead of standard output; several pages to this folder.",
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
@jobs_option
@socket_option
@click.pass_context
def command(
    context: click.Context,
    sources: tuple[str, ...],
    output: Path | None,
    level: Any,
    max_body: int,
    max_bodies: int,
    jobs: int,
    socket: Path | None,
) -> None:
    """Write a session as a page that opens in any browser.

    The page needs neither a daemon nor a network, and contains no script. SESSION is a session id, as "tooltap
    sessions" shows it, or an unambiguous prefix of it. PATH is a recording of an agent's lines, or events as "tooltap
    normalize" prints them ("-" is standard input), or a folder of .jsonl files; reading them needs no daemon. The page
    is written to standard output, and the pages of several sessions to a folder.

    \b
        tooltap export --html 5a0c1f4e -o session.html
    """
    if output is None and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal: name a file with -o FILE")
    with require_extra("web"):
        import tooltap.daemon.web.page.export
        import tooltap.daemon.web.page.export_source  # noqa: F401
    write = partial(_write_page, level=level, limits=(max_body, max_bodies), socket=socket)
    pages = _pages(sources, socket)
    if len(sources) == 1 and not any(path.is_dir() for path in (Path(sources[0]), output) if path is not None):
        [page] = pages
        write(page._replace(path=output))
        return
    if output is None or output.is_file():
        raise click.UsageError("several pages need a folder: name it with -o FOLDER")
    output.mkdir(parents=True, exist_ok=True)
    context.exit(_write_all(pages, output, write, 1 if STDIN in sources else jobs))


class _Page(NamedTuple):
    source: str
    """A file, or what the user calls a session."""
    session: dict[str, Any] | None
    """None: a file, or a session that is not found."""
    problem: str | None = None
    """Why there is no such session."""
    path: Path | None = None
    """Where it is written; None: standard output."""


def _pages(sources: tuple[str, ...], socket: Path | None) -> list[_Page]:
    pages: list[_Page] = []
    sessions: list[dict[str, Any]] | None = None
    for source in sources:
        if source == STDIN or Path(source).exists():
            pages += [_Page(file, None) for file in input_files((source,))]
            continue
        sessions = list(list_sessions(socket, sys.maxsize)) if sessions is None else sessions
        pages.append(_find_session(sessions, source))
    return pages


def _find_session(sessions: list[dict[str, Any]], wanted: str) -> _Page:
    """The session with this id, or the only session whose id starts with it."""
    matches = []
    for one in sessions:
        if one["session"] == wanted:
            return _Page(wanted, one)
        if one["session"].startswith(wanted):
            matches.append(one)
    if len(matches) == 1:
        return _Page(wanted, matches[0])
    what = "no session" if not matches else f"{len(matches)} sessions whose ids start with"
    return _Page(wanted, None, f"the journal has {what} {wanted!r}; list them with `tooltap sessions`")


def _write_all(pages: list[_Page], folder: Path, write: Callable[[_Page], None], jobs: int) -> int:
    """Write each page to the folder, and return the exit code."""
    from tooltap.daemon.system.workers import Workers
    from tooltap.daemon.taps.stream_ids import stream_name

    taken: set[str] = set()
    placed = []
    for page in pages:
        name = stream_name(page.source) if page.session is None else stream_name(f"{page.session['session']}.html")
        placed.append(page._replace(path=folder / f"{unique(name, taken)}.html"))
    weights = list(map(_weigh, placed))
    code = 0
    with (
        progress(sum(weights), data_on_stdout=False) as advance,
        worker_errors(),
        Workers(partial(_try, write), placed, jobs=jobs, weigh=_weigh) as workers,
    ):
        for number, weight in enumerate(weights):
            for problem in workers.values(number):
                click.echo(f"tooltap: {problem}", err=True)
                code = 1
            advance(weight)
    return code


def _weigh(page: _Page) -> int:
    return PER_PAGE if page.session is not None else input_size(page.source)


def _try(write: Callable[[_Page], None], page: _Page) -> Iterator[str]:
    """Write a page; yield why it cannot be written."""
    try:
        write(page)
    except click.ClickException as error:
        yield error.message


def _write_page(page: _Page, *, level: Any, limits: tuple[int, int], socket: Path | None) -> None:
    """`limits`: bytes of each output body in the page, and of all. Raises `click.ClickException`."""
    from tooltap.daemon.taps.stream_ids import stream_name
    from tooltap.daemon.web.page.export import Bodies, ExportedPage
    from tooltap.daemon.web.page.export_source import FileSource

    if page.problem is not None:
        raise click.ClickException(page.problem)
    bodies = Bodies(*limits)
    file = _OutputFile(page.path)
    if page.session is not None:
        session = page.session["session"]
        exported = ExportedPage(page.session.get("title") or session, level=level, bodies=bodies)
        run_client(lambda: _write_session(exported, file, session, socket, bodies))
        file.finish(exported, if_empty=f"session {session!r} has no events any more")
        return
    exported = ExportedPage(Path(page.source).stem, level=level, bodies=bodies)
    with FileSource(stream_name(page.source), read_chunks(page.source), bodies) as source:
        try:
            for event, found in source:
                file.write(exported.add(event, found))
        except UnreadableError as error:
            raise click.ClickException(str(error)) from None
        file.finish(exported, if_empty=f"{page.source} has no events")


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
