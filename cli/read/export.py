"""`tooltap export`: writes sessions as files: self-contained HTML pages, Markdown, and formats of other programs."""

from __future__ import annotations

import io
import shutil
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.connection import run_client, socket_option, wait_option
from tooltap.cli.common.filters import agent_option, host_option, project_option, time_options
from tooltap.cli.common.masking import Masking, redact_options
from tooltap.cli.common.printing import at_terminal, binary_output, progress, say, warn
from tooltap.cli.common.recordings import (
    STDIN,
    UnreadableError,
    guarded_workers,
    input_files,
    input_size,
    jobs_option,
    read_chunks,
    unique,
    worker_errors,
)
from tooltap.cli.read.sessions import (
    EVERY,
    AmbiguousSessionError,
    UnknownSessionError,
    find_projects,
    find_session,
    list_sessions,
)
from tooltap.daemon.formats import counted

if TYPE_CHECKING:
    from tooltap.daemon.client.asynchronous import Client
    from tooltap.daemon.export.anonymity import Anonymizer
    from tooltap.daemon.export.source import Bodies, Collection, ExportedBody, Exporter, SessionWriter
    from tooltap.protocol.events import AnyEvent

MAX_BODY = 1_048_576
MAX_BODIES = 67_108_864
MAX_TEXT = 65_536
LOOK_EVERY = 100
"""Events after which an export asks whether its session is being deleted."""
PER_PAGE = 1 << 20
"""Assumed cost of writing a session whose size is not known, as bytes of a recording."""


@click.command(
    "export",
    cls=Command,
    examples=(
        "tooltap export 0d3f --html -o session.html",
        "tooltap export last --markdown -o session.md",
        "tooltap export --format jsonl --agent codex --since 7d -o sessions",
        "tooltap export --format sqlite --since 7d -o history.sqlite",
        "tooltap export --html codex.jsonl > session.html",
        "tooltap export --html recordings/ -o pages",
    ),
)
@click.argument("sources", nargs=-1, metavar="[SESSION|PATH]...")
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    shell_complete=completion.formats,
    help="Write this format: html, markdown, jsonl, atif, ag-ui, otlp, sqlite, parquet, or one of another package.",
)
@click.option("--html", "form", flag_value="html", help="Short for --format html.")
@click.option("--markdown", "form", flag_value="markdown", help="Short for --format markdown.")
@agent_option(help="All sessions of this agent.")
@project_option("All sessions in this directory, or in directories with this name.")
@host_option("All sessions of")
@time_options("All sessions active at this time or later", "All sessions begun before this time")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write to this file instead of standard output; several pages to this folder.",
)
@click.option(
    "--level",
    type=Choice(["title", "summary", "full"]),
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
@click.option(
    "--max-text",
    type=click.IntRange(min=0),
    default=MAX_TEXT,
    show_default=True,
    metavar="BYTES",
    help="In tables, shorten texts, inputs and outputs to this size each.",
)
@click.option("--content", is_flag=True, help="In otlp, include texts, and arguments and results of calls.")
@redact_options
@click.option("--anonymous", is_flag=True, help="Replace home folders, names of users and hosts, and e-mail addresses.")
@jobs_option
@wait_option
@socket_option
@click.pass_context
def command(
    context: click.Context,
    sources: tuple[str, ...],
    form: str | None,
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    since: int | None,
    until: int | None,
    output: Path | None,
    level: Any,
    max_body: int,
    max_bodies: int,
    max_text: int,
    content: bool,
    no_redact: bool,
    preview: bool,
    anonymous: bool,
    jobs: int,
    socket: Path | None,
) -> None:
    """Write a session as a page that opens in any browser, or as Markdown.

    FORMAT is html, markdown, jsonl (an event per line), atif, ag-ui, otlp (spans of OpenTelemetry), sqlite (tables of
    all sessions in one file), parquet (a file for each table), or one that another package adds. The HTML page needs
    neither a daemon nor a network, and contains no script. In Markdown, turns are headings, prompts are quotes, and
    each call is a line with its shortened input and output.

    SESSION is a session's id, the beginning of it, words of its title, or "last". PATH is a recording of an agent's
    lines, or events as "tooltap normalize" prints them ("-" is standard input), or a folder of .jsonl files; reading
    them needs no daemon. Without either, --agent, --project, --host, --since and --until say which sessions are
    written. One file is written to standard output, and several to a folder.

    Secrets are masked, because you may share the page, and a sentence says how many. --preview lists them first.
    --anonymous also replaces home folders, your name and your computer's, and e-mail addresses, by ~, user-1, host-1
    and email-1.

    \b
        tooltap export --html 5a0c1f4e -o session.html
    """
    from tooltap.daemon.export.formats import FormatError, collection_class, exporter_class

    if form is None:
        raise click.UsageError("choose a format: --html, --markdown or --format FORMAT")
    try:
        together, ending = collection_class(form), exporter_class(form).ENDING
    except FormatError as error:
        raise click.UsageError(str(error)) from None
    stated = {"provider": agent, "since": since, "until": until, "project": project, "host": host}
    filters = {key: value for key, value in stated.items() if value not in ((), None)}
    if bool(filters) == bool(sources):
        choices = "--agent, --project, --host, --since or --until"
        raise click.UsageError(f"name sessions or files, or choose sessions by {choices}")
    if no_redact and preview:
        raise click.UsageError("--preview and --no-redact exclude each other: choose one")
    if output is None and at_terminal() and not preview:
        raise click.UsageError("standard output is a terminal: name a file with -o FILE")
    if together is not None:
        _check_place(together, output, preview=preview)
    alone = form if together is None else "jsonl"
    options = _Options(alone, level, content, (max_body, max_bodies), not no_redact, preview, anonymous, socket)
    write = partial(_write_page, options=options)
    pages = _pages(sources, socket) if sources else _chosen_pages(filters, socket)
    if preview:
        for page in pages:
            write(page)
        return
    if together is not None:
        context.exit(_write_together(_once(pages), output, together, options, max_text))
    if len(sources) == 1 and not any(path.is_dir() for path in (Path(sources[0]), output) if path is not None):
        [page] = pages
        note = write(page._replace(path=output))
        if note is not None:
            warn(note)
        return
    if output is None or output.is_file():
        raise click.UsageError("several pages need a folder: name it with -o FOLDER")
    output.mkdir(parents=True, exist_ok=True)
    context.exit(_write_all(pages, output, ending, write, 1 if STDIN in sources else jobs))


class _Page(NamedTuple):
    source: str
    """Path of a file, or the session as the user named it."""
    session: dict[str, Any] | None
    """The session's row; None for a file, or if the session is not found."""
    problem: str | None = None
    """Why the session is not found."""
    path: Path | None = None
    """Where it is written; None: standard output."""
    stream: str = ""
    """Stream id of a file."""

    @property
    def name(self) -> str:
        return self.source if self.session is None else str(self.session["session"])

    @property
    def title(self) -> str:
        return Path(self.source).stem if self.session is None else self.session.get("title") or self.name

    @property
    def nothing(self) -> str:
        """The error message if there is nothing to write."""
        is_file = self.session is None
        return f"{self.source} has no events" if is_file else f"session {self.name!r} has no events any more"


class _Options(NamedTuple):
    form: str
    """Name of the format."""
    level: Any
    content: bool
    """Whether spans have texts."""
    limits: tuple[int, int]
    """Maximum bytes of one output body in the page, and of all together."""
    redact: bool
    preview: bool
    """List what would be masked, and write nothing."""
    anonymous: bool
    socket: Path | None


def _pages(sources: tuple[str, ...], socket: Path | None) -> list[_Page]:
    from tooltap.daemon.taps.stream_ids import stream_name

    pages: list[_Page] = []
    for source in sources:
        if source == STDIN or Path(source).exists():
            pages += [_Page(file, None, stream=stream_name(file)) for file in input_files((source,))]
            continue
        pages.append(_session_page(socket, source))
    return pages


def _once(pages: list[_Page]) -> list[_Page]:
    """Return the pages without a session that is named twice."""
    return list({id(page) if page.session is None else page.name: page for page in pages}.values())


def _check_place(form: type[Collection], output: Path | None, *, preview: bool) -> None:
    if form.IS_FOLDER and not preview and (output is None or output.is_file()):
        raise click.UsageError("the files of this format need a folder: name it with -o FOLDER")
    if not form.IS_FOLDER and output is not None and output.is_dir():
        raise click.UsageError(f"{output} is a folder: all sessions become one file, which -o FILE names")


def _chosen_pages(filters: dict[str, Any], socket: Path | None) -> list[_Page]:
    if "project" in filters:
        filters = {**filters, "project": find_projects(socket, filters["project"])}
    pages = [_Page(row["session"], row) for row in list_sessions(socket, EVERY, **filters)]
    if not pages:
        raise click.ClickException("the journal has no such sessions")
    return pages


def _session_page(socket: Path | None, wanted: str) -> _Page:
    try:
        return _Page(wanted, find_session(socket, wanted))
    except (AmbiguousSessionError, UnknownSessionError) as error:
        return _Page(wanted, None, error.message)


def _write_all(pages: list[_Page], folder: Path, ending: str, write: Callable[[_Page], str | None], jobs: int) -> int:
    """Write each page to the folder, and return the exit code."""
    from tooltap.daemon.taps.stream_ids import stream_name

    taken: set[str] = set()
    placed = []
    for page in pages:
        name = stream_name(page.source) if page.session is None else stream_name(f"{page.session['session']}.html")
        placed.append(page._replace(path=folder / f"{unique(name, taken)}.{ending}"))
    weights = list(map(_weigh, placed))
    code = 0
    with (
        progress(sum(weights), data_on_stdout=False) as advance,
        worker_errors(),
        guarded_workers(partial(_try, write), placed, jobs=jobs, weigh=_weigh) as workers,
    ):
        for number, weight in enumerate(weights):
            for is_problem, sentence in workers.values(number):
                warn(sentence)
                code = max(code, int(is_problem))
            advance(weight)
    return code


def _weigh(page: _Page) -> int:
    return PER_PAGE if page.session is not None else input_size(page.source)


def _try(write: Callable[[_Page], str | None], page: _Page) -> Iterator[tuple[bool, str]]:
    """Write a page; yield `(True, error)` if that fails, or `(False, remark)` if there is a remark."""
    try:
        note = write(page)
    except click.ClickException as error:
        yield True, error.message
    else:
        if note is not None:
            yield False, f"{page.path}: {note}"


def _write_page(page: _Page, *, options: _Options) -> str | None:
    """Return a remark about the page. Raises `click.ClickException`."""
    from tooltap.daemon.export.anonymity import Anonymizer
    from tooltap.daemon.export.formats import exporter_class
    from tooltap.daemon.export.redaction import remarks
    from tooltap.daemon.export.source import Bodies

    if page.problem is not None:
        raise click.ClickException(page.problem)
    bodies = Bodies(*(options.limits if exporter_class(options.form).HAS_BODIES else (0, 0)))
    masking = Masking(options.redact, partial(_show, page.name) if options.preview else None)
    names = Anonymizer.of_this_machine() if options.anonymous else None
    with _OutputFile(page.path, discards=options.preview) as file:
        begin = partial(_exported, options=options, bodies=bodies)
        exported = _write_events(page, begin, file.write, bodies, masking, names, options.socket)
        remarked = remarks(masking.counts if options.redact else None, names)
        file.finish(exported, *remarked, if_empty=page.nothing)
    if options.preview and names is not None:
        for one in names.replaced:
            _show(page.name, f"{one.placeholder} for {one.name}, {counted(one.times, 'time')}")
    return masking.sentence()


def _write_events(
    page: _Page,
    begin: Callable[[str], SessionWriter],
    write: Callable[[str], None],
    bodies: Bodies,
    masking: Masking,
    names: Anonymizer | None,
    socket: Path | None,
) -> SessionWriter:
    """Write the events of a page, and return its exporter. `begin`: makes it, with the title. Raises
    `click.ClickException`."""
    from tooltap.daemon.export.redaction import masked_title
    from tooltap.daemon.export.source import FileSource

    if (row := page.session) is not None:
        if names is not None:
            run_client(lambda: _learn_names(names, row, socket))
        exported = begin(masked_title(page.title, partial(masking.mask, where="title"), names))
        run_client(lambda: _write_session(exported, write, row, socket, bodies, masking, names))
        return exported
    with _readable(), _read_twice(page.source, names) as chunks:
        exported = begin(masked_title(page.title, partial(masking.mask, where="title"), names))
        stream = page.stream if names is None else names.text(page.stream)
        with FileSource(stream, chunks, bodies, masking.mask, names) as source:
            for event, found in source:
                write(exported.add(event, found))
    return exported


def _write_together(
    pages: list[_Page], output: Path | None, form: type[Collection], options: _Options, max_text: int
) -> int:
    """Write all pages to one file, and return the exit code. Raises `click.ClickException`."""
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.export.anonymity import Anonymizer
    from tooltap.daemon.export.redaction import remarks
    from tooltap.daemon.export.source import Bodies
    from tooltap.daemon.sessions.prices import state
    from tooltap.daemon.system.paths import config_path
    from tooltap.daemon.taps.stream_ids import stream_name

    try:
        usual = config_path()
        state(load_config(usual if usual.exists() else None).prices)  # as a daemon does, so that estimates agree
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    masking = Masking(options.redact)
    names = Anonymizer.of_this_machine() if options.anonymous else None
    taken: set[str] = set()
    complaints: list[str] = []
    written = 0

    def write(text: str) -> None:
        nonlocal written
        written += 1

    weights = list(map(_weigh, pages))
    with tempfile.TemporaryDirectory(prefix="tooltap-export-") as folder, _writing(output):
        place = Path(folder) / "tables"
        if form.IS_FOLDER:
            place.mkdir()
        collection = form(place, max_text=max_text, masked=options.redact)
        with progress(sum(weights), data_on_stdout=output is None) as advance:
            for page, weight in zip(pages, weights, strict=True):
                if page.problem is not None:
                    complaints.append(page.problem)
                    continue
                before = written
                if page.session is None:
                    page = page._replace(stream=unique(stream_name(page.source), taken))
                begin = partial(_source, collection, page, names)
                exported = _write_events(page, begin, write, Bodies(0, 0), masking, names, options.socket)
                complaints += exported.end()
                if written == before:
                    complaints.append(page.nothing)
                advance(weight)
        if written:
            collection.finish(*remarks(masking.counts if options.redact else None, names))
            _put(place, output)
    for complaint in complaints:
        warn(complaint)
    if (note := masking.sentence()) is not None:
        warn(note)
    return 1 if complaints else 0


def _source(collection: Collection, page: _Page, names: Anonymizer | None, title: str) -> SessionWriter:
    name = page.stream if page.session is None else page.name
    return collection.source(name if names is None else names.text(name), page.session)


def _put(place: Path, output: Path | None) -> None:
    """Copy what is complete to where the user wants it: a file, or the files of a folder."""
    from tooltap.traces.recording.whole_file import whole_file

    if output is None:
        with place.open("rb") as source:
            shutil.copyfileobj(source, binary_output())
        binary_output().flush()
        return
    if place.is_dir():
        output.mkdir(parents=True, exist_ok=True)
    for one in sorted(place.iterdir()) if place.is_dir() else [place]:
        with one.open("rb") as source, whole_file(output / one.name if place.is_dir() else output) as target:
            shutil.copyfileobj(source, target)


@contextmanager
def _writing(output: Path | None) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{output or 'standard output'}: {error.strerror}") from None


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except UnreadableError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _read_twice(path: str, names: Anonymizer | None) -> Iterator[Iterator[bytes]]:
    """Learn the names in a file, if they are wanted, then yield its bytes. What a pipe has is held on disk meanwhile.
    Raises `UnreadableError`."""
    from tooltap.daemon.export.source import Bodies, FileSource
    from tooltap.protocol.events import encode

    if names is None:
        yield read_chunks(path)
        return
    with tempfile.TemporaryDirectory(prefix="tooltap-export-") as folder:
        if not Path(path).is_file():
            held = Path(folder) / "pipe"
            with held.open("wb") as file:
                file.writelines(read_chunks(path))
            path = str(held)
        with FileSource("names", read_chunks(path), Bodies(0, 0), lambda data, _: data) as source:
            for event, _ in source:
                names.learn(encode(event))
        yield read_chunks(path)


async def _learn_names(names: Anonymizer, session: dict[str, Any], socket: Path | None) -> None:
    from tooltap.daemon.client.asynchronous import subscribe
    from tooltap.daemon.sessions.listing import stored_names
    from tooltap.protocol.filters import Filter

    wanted = Filter(session=stored_names(session))
    async with subscribe(after="start", filter=wanted, follow=False, path=socket) as items:
        async for item in items:
            if isinstance(item, bytes):
                names.learn(item)


def _exported(title: str, options: _Options, bodies: Bodies) -> Exporter:
    from tooltap.daemon.export.formats import exporter_class

    if options.form == "html":
        from tooltap.daemon.export.html import ExportedPage

        return ExportedPage(title, level=options.level, bodies=bodies)
    if options.form == "otlp":
        from tooltap.daemon.export.otlp import SpanFile

        return SpanFile(title, bodies=bodies, has_content=options.content)
    return exporter_class(options.form)(title, bodies=bodies)


def _show(what: str, sentence: str) -> None:
    say(f"{what}: {sentence}")


class _OutputFile:
    """Output file of a page, created when the page is complete. Raises `click.ClickException`. `discards`: write no
    file."""

    def __init__(self, path: Path | None, *, discards: bool) -> None:
        self._path = path
        self._discards = discards
        self._file: BinaryIO | None = None
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _writing(self._path):
            self._opened.__exit__(kind, error, trace)

    def write(self, text: str) -> None:
        from tooltap.traces.recording.whole_file import whole_file

        with _writing(self._path):
            if self._file is None:
                self._file = (
                    io.BytesIO()
                    if self._discards
                    else binary_output()
                    if self._path is None
                    else self._opened.enter_context(whole_file(self._path))
                )
            if self._discards:
                return
            self._file.write(text.encode())

    def finish(self, page: SessionWriter, *remarks: str, if_empty: str) -> None:
        """Write the end of the page. `if_empty`: the error message if there is nothing to write."""
        if self._file is None:
            raise click.ClickException(if_empty)
        for part in page.end(*remarks):
            self.write(part)
        with _writing(self._path):
            self._file.flush()


async def _write_session(
    page: SessionWriter,
    write: Callable[[str], None],
    session: dict[str, Any],
    socket: Path | None,
    bodies: Bodies,
    masking: Masking,
    names: Anonymizer | None,
) -> None:
    import msgspec

    from tooltap.daemon.client.asynchronous import connect, subscribe
    from tooltap.daemon.export.redaction import masked_event
    from tooltap.daemon.export.source import DeletedMeanwhile, MissingRange
    from tooltap.daemon.sessions.listing import is_of, stored_names
    from tooltap.daemon.views.select import LaterViews
    from tooltap.protocol.events import ToolUpdate, decode
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.frames import Gap

    wanted, views = Filter(session=stored_names(session)), LaterViews()
    updates = msgspec.structs.replace(wanted, kind=("tool-update",))
    async with subscribe(after="start", filter=updates, follow=False, path=socket) as items:
        async for item in items:
            if isinstance(item, bytes) and isinstance(event := decode(item), ToolUpdate) and event.display is not None:
                views.note(masked_event(item, partial(masking.mask, where=f"event {event.seq}"), names))
    deleted: MissingRange | None = None
    """What retention has deleted of all sessions."""
    has_begun, expired, read = False, 0, 0

    def write_gap(missing: MissingRange | None) -> None:
        if missing is not None:
            warn(missing.words)
            if note := page.add_gap(missing):
                write(note)

    async with connect(socket) as client, subscribe(after=0, filter=wanted, follow=False, path=socket) as items:
        meanwhile = DeletedMeanwhile(partial(_is_stored, client))
        async for item in items:
            if isinstance(item, bytes):
                event = decode(item)
                if views.is_given(event) or not is_of(session, event.session, event.seq or 0):
                    continue
                event = views.put(masked_event(item, partial(masking.mask, where=f"event {event.seq}"), names))
                if deleted is not None and event.seq is not None and session["firstSeq"] < event.seq:
                    write_gap(MissingRange(session["firstSeq"], min(deleted.last, event.seq - 1), is_deleted=True))
                deleted, has_begun = None, True
                write(page.add(event, await _fetch_bodies(client, event, bodies, masking, names)))
                meanwhile.read(event)
                read += 1
                if read % LOOK_EVERY == 0:
                    write_gap(await meanwhile.look(expired))
            elif isinstance(item, Gap):
                missing = MissingRange(item.from_, item.to, is_deleted=item.reason == "retention")
                expired = max(expired, item.to) if missing.is_deleted else expired
                if missing.is_deleted and not has_begun:
                    deleted = missing
                else:
                    write_gap(missing)
        write_gap(await meanwhile.look(expired))


LOOK_EVERY = 100
"""Events after which an export asks whether its session is being deleted."""


async def _is_stored(client: Client, seq: int) -> bool:
    from tooltap.daemon.client.discovery import DaemonError

    try:
        await client.request("event", seq=seq)
    except DaemonError as error:
        return error.code != "not-found"
    return True


async def _fetch_bodies(
    client: Client, event: AnyEvent, bodies: Bodies, masking: Masking, names: Anonymizer | None
) -> dict[str, ExportedBody]:
    """The event's output bodies that are still stored and fit into the page, by output id."""
    from tooltap.daemon.client.discovery import DaemonError
    from tooltap.daemon.export.redaction import masked_output
    from tooltap.daemon.export.source import ExportedBody, body_ids

    found: dict[str, ExportedBody] = {}
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
        mask = partial(masking.mask, where=f"output {output_id}")
        found[output_id] = ExportedBody(masked_output(data, mask, names), mime_type)
    return found
