"""`tooltap journal`: checks, repairs, copies and exports the journal."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tooltap.cli.common.columns import say_wrapped
from tooltap.cli.common.commands import Check, Group
from tooltap.cli.common.masking import redact_options
from tooltap.cli.common.printing import MAX_ID, flush, say, say_json, short, warn, write_events
from tooltap.cli.common.recordings import UnreadableError, read_chunks
from tooltap.daemon.formats import counted
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES, LongLine, Splitter

if TYPE_CHECKING:
    from tooltap.daemon.journal.importing import Imported
    from tooltap.daemon.journal.open import Place

F = TypeVar("F", bound=Callable[..., Any])


class UsageProblem(click.ClickException):
    exit_code = 2


@click.group(
    "journal",
    cls=Group,
    examples=(
        "tooltap journal check",
        "tooltap journal backup ~/backups/tooltap-monday.db",
        "tooltap journal export > events.jsonl",
        "tooltap journal import ~/backups/archive.jsonl",
    ),
)
def command() -> None:
    """Check, repair, back up, export or restore the journal.

    The commands use the journal of the configuration, unless --journal names another one. Only `repair` and `import`
    require that the daemon is stopped.
    """


def _journal_options(function: F) -> F:
    function = click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The daemon's configuration.  [default: tooltap.toml in the user's configuration directory]",
    )(function)
    return click.option(
        "--journal", metavar="sqlite:PATH|nats://…", help="The journal.  [default: that of the configuration]"
    )(function)


def _place(journal: str | None, config: Path | None) -> Place:
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.system.paths import config_path

    if config is None and (usual := config_path()).exists():
        config = usual
    try:
        return load_config(config, journal=journal).journal_place
    except ConfigError as error:
        raise UsageProblem(str(error)) from None


def _file(journal: str | None, config: Path | None, what: str) -> Path:
    """Return the file of a SQLite journal. Raises `click.ClickException` if it is missing, or the journal is on
    NATS."""
    place = _place(journal, config)
    if not isinstance(place, Path):
        raise click.ClickException(f"the journal is {place}: NATS {what}")
    if not place.exists():
        raise click.ClickException(f"there is no journal {place}")
    if place.is_dir():
        raise click.ClickException(f"{place} is a folder: name the file in it, with --journal sqlite:PATH")
    return place.resolve()


@command.command("check", cls=Check, examples=("tooltap journal check", "tooltap journal check --json | jq .damages"))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all damage.")
@_journal_options
@click.pass_context
def check(context: click.Context, as_json: bool, journal: str | None, config: Path | None) -> None:
    """Read every page, every checksum and every reference.

    It prints one sentence for each damaged part; the exit code is 1 if there is any damage. Nothing is changed, and a
    daemon may be running.
    """
    import msgspec

    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.journal.sqlite.check import check_file, describe_gaps
    from tooltap.daemon.system.sanitize import encodable

    path = _file(journal, config, "checks what it stores itself")
    damages = []
    try:
        for found in check_file(path):
            damages.append(found)
            if not as_json:
                say_wrapped(found.text)
        gaps = describe_gaps(path)
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        listed = [{"part": one.part, "text": one.text, "first": one.first, "last": one.last} for one in damages]
        say_json(msgspec.json.encode({"journal": encodable(str(path)), "damages": listed, "gaps": gaps}))
    elif damages:
        say_wrapped(
            f"{path}: {counted(len(damages), 'damage')}; `tooltap journal repair` keeps everything that is intact"
        )
    else:
        lost = sum(last - first + 1 for first, last in gaps)
        say_wrapped(f"{path} is intact" + (f"; it records events as lost: {lost}" if lost else ""))
    context.exit(1 if damages else 0)


@command.command("repair", examples=("tooltap journal repair",))
@_journal_options
def repair(journal: str | None, config: Path | None) -> None:
    """Write a new journal from everything that is intact.

    It takes the place of the damaged one, which stays beside it with a name that ends with `.damaged-1`. The daemon
    must be stopped. Lost events become a gap, which tells subscribers which events they will not get.
    """
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.journal.sqlite.repair import repair as repair_file

    path = _file(journal, config, "keeps copies of what it stores; nothing here can be repaired")
    try:
        repaired = repair_file(path)
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    for first, last in repaired.gaps:
        say_wrapped(f"events {first} to {last} are lost" if last > first else f"event {first} is lost")
    for stream in repaired.reset:
        say_wrapped(f"stream {short(stream, MAX_ID)} continues with a fresh parser")
    for table, number in sorted(repaired.rebuilt.items()):
        say_wrapped(f"{counted(number, f'row of {table} was', f'rows of {table} were')} made again")
    say_wrapped(f"{path} has all {repaired.events} intact events; the damaged file is {repaired.damaged}")


@command.command("backup", examples=("tooltap journal backup ~/backups/tooltap-monday.db",))
@click.argument("target", type=click.Path(path_type=Path), metavar="FILE")
@_journal_options
def backup(target: Path, journal: str | None, config: Path | None) -> None:
    """Write a consistent copy of the journal to FILE.

    The daemon may be running. The copy is checked, and gets its name only when it is complete. To restore it, stop the
    daemon, copy it to the journal's place, remove `journal.db-wal` and `journal.db-shm`, and start the daemon.
    """
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.journal.sqlite.backup import backup as copy

    path = _file(journal, config, "has its own backup: `nats stream backup`")
    try:
        size = copy(path, target)
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    say_wrapped(f"{target} is a copy of {path}, {size / 2**20:.1f} MiB")


@command.command(
    "export",
    examples=("tooltap journal export > events.jsonl", "tooltap journal export --archive | gzip > archive.jsonl.gz"),
)
@click.option(
    "--bodies", is_flag=True, help="Also write the bodies of long outputs, after the events that refer to them."
)
@click.option(
    "--archive", is_flag=True, help="Write everything that `tooltap journal import` needs: also the bodies and streams."
)
@redact_options
@_journal_options
def export(
    bodies: bool, archive: bool, no_redact: bool, preview: bool, journal: str | None, config: Path | None
) -> None:
    """Write all events as JSON lines, in order.

    The lines are those that a subscriber gets, with secrets masked, and with a line `{"op":"gap",…}` in place of
    missing events. A daemon may be running.
    """
    import anyio

    from tooltap.cli.common.masking import Masking
    from tooltap.daemon.export.redaction import masked_line
    from tooltap.daemon.journal.interface import JournalError

    if no_redact and preview:
        raise click.UsageError("--preview and --no-redact exclude each other: choose one")
    place = _place(journal, config)
    masking = Masking(not no_redact, say if preview else None)
    if isinstance(place, Path) and not place.exists():
        raise click.ClickException(f"there is no journal {place}")

    async def write() -> None:
        number = 0
        async for line in _lines(place, bodies=bodies, archive=archive):
            number += 1
            masked = masked_line(line, partial(masking.mask, where=f"line {number}"))
            if not preview:
                write_events(masked)
        flush()

    try:
        anyio.run(write)
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    if not preview and (said := masking.sentence()) is not None:
        warn(said)


async def _lines(place: Place, *, bodies: bool, archive: bool) -> AsyncIterator[bytes]:
    from tooltap.daemon.journal.json_lines import ReadableJournal, archive_lines, json_lines
    from tooltap.daemon.journal.open import open_journal

    def lines(journal: ReadableJournal) -> AsyncIterator[bytes]:
        return archive_lines(journal) if archive else json_lines(journal, bodies=bodies)

    if isinstance(place, Path):
        from tooltap.daemon.journal.sqlite.opening import JournalFile

        file = JournalFile(place)
        try:
            async for line in lines(file):
                yield line
        finally:
            file.close()
        return
    journal = await open_journal(place, "process")
    try:
        await journal.listen()
        async for line in lines(journal):
            yield line
    finally:
        await journal.close()


@command.command(
    "import",
    examples=(
        "tooltap journal import ~/backups/archive.jsonl",
        "gzip -dc archive.jsonl.gz | tooltap journal import -",
    ),
)
@click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
@_journal_options
@click.pass_context
def import_(context: click.Context, file: str, journal: str | None, config: Path | None) -> None:
    """Restore the sessions of an archive that `journal export --archive` wrote.

    A stream that the journal has already is left out, so that nothing is there twice; sessions that retention has
    deleted are restored. An import that was interrupted continues when it is run again. The daemon must be stopped.
    """
    import anyio

    from tooltap.daemon.journal.importing import Importer, begins_archive
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.journal.open import open_journal

    place = _place(journal, config)
    lines = _split(file)

    async def restore() -> Imported:
        first = next(lines, b"")
        if not begins_archive(first):
            raise click.ClickException(
                f"{file} does not begin as an archive does: write it with `tooltap journal export --archive`"
            )
        opened = await open_journal(place, "process")
        try:
            importer = Importer(opened, lambda number, reason: warn(f"{file}: line {number} is left out: {reason}"))
            await importer.read(itertools.chain([first], lines))
            return importer.done
        finally:
            await opened.close()

    try:
        done = anyio.run(restore)
    except (JournalError, UnreadableError) as error:
        raise click.ClickException(str(error)) from None
    say_wrapped(f"{counted(done.events, 'event')} of {counted(done.streams, 'stream')} restored")
    if done.known:
        say_wrapped(f"{counted(done.known, 'stream')} left out: already in the journal")
    if done.later:
        say_wrapped(f"{counted(done.later, 'event')} left out: written after the archive was begun")
    if done.missing:
        say_wrapped(f"{counted(done.missing, 'event was', 'events were')} missing when the archive was written")
    context.exit(1 if done.unread else 0)


def _split(file: str) -> Iterator[bytes | LongLine]:
    splitter = Splitter(MAX_LINE_BYTES)
    for chunk in read_chunks(file):
        yield from splitter.feed(chunk)
    if (last := splitter.finish()) is not None:
        yield last
