"""`tooltap dialect`: lists dialects, writes a package with a new one, and checks one."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.commands import Check, Group
from tooltap.cli.common.printing import say, short, warn
from tooltap.cli.common.recordings import UnreadableError, input_files, read_chunks
from tooltap.daemon.formats import counted

MAX_BYTES = 16 * 1024 * 1024
"""Bytes that are read of a recording; the rules are checked many times over."""
MAX_SENTENCE = 500


@click.group(
    "dialect",
    cls=Group,
    examples=(
        "tooltap dialect list",
        "tooltap dialect new quill-json",
        "tooltap dialect check codex-exec recordings/",
    ),
)
def command() -> None:
    """List dialects, and write and check your own."""


@command.command("list", short_help="List all dialects.", examples=("tooltap dialect list",))
@click.pass_context
def list_(context: click.Context) -> None:
    """List all dialects: those of tooltap with what they read, and those of other packages with their package.

    Dialects that cannot be used are named on standard error; then the exit code is 1.
    """
    from tooltap.normalizers.catalog.registry import BrokenDialectError, builtin, dialects, package_of, parser_class

    width = max(map(len, dialects()))
    broken = False
    for name in dialects():
        try:
            parser_class(name)
        except BrokenDialectError as error:
            warn(str(error))
            broken = True
            continue
        of_package = package_of(name)
        what = builtin()[name].reads if of_package is None else f"of the package {of_package}"
        say(f"{name:{width}}  {what}")
    context.exit(1 if broken else 0)


@command.command(
    "new",
    short_help="Write a package with a new dialect, to start from.",
    examples=("tooltap dialect new quill-json", "tooltap dialect new quill-json --folder work/quill"),
)
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write it; nothing there is overwritten.  [default: tooltap-NAME]",
)
def new(name: str, folder: Path | None) -> None:
    """Write a package with a new dialect, to start from.

    The package has an entry point by which tooltap finds the dialect once it is installed, a parser for the lines of a
    fictional agent, a recording of them, and a test. Replace the lines with those of your agent.
    """
    from tooltap.traces.learning.package import PackageError, check_name, write_package

    context = click.get_current_context(silent=True)
    try:
        check_name(name)
        folder = folder or Path(f"tooltap-{name}")
        for path in write_package(folder, name):
            say(str(path))
    except PackageError as error:
        raise click.UsageError(str(error), context) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from None


@command.command(
    "check",
    cls=Check,
    short_help="Check that a dialect keeps the rules.",
    examples=("tooltap dialect check codex-exec recordings/", "tooltap dialect check quill-json run.jsonl"),
)
@click.argument("name")
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@click.pass_context
def check(context: click.Context, name: str, paths: tuple[str, ...]) -> None:
    """Check that a dialect keeps the rules, with recordings of its agent.

    Each PATH is a file, or a folder of .jsonl files. A dialect keeps the rules if it raises nothing, also at lines that
    are cut, damaged or in another order; if each line is counted, each result has a call, ids are unique, nothing stays
    open; and if the same lines become the same events, in whatever portions they come, and after a restart.

    A broken rule is printed as "broken", and makes the exit code 1. What the lines seem to hold and no event has, is
    printed as "missing": calls, results, texts, tokens, times.
    """
    from tooltap.normalizers.catalog.registry import UnknownDialectError, parser_class
    from tooltap.testing import broken_rules, read_recording
    from tooltap.traces.learning.review import missing
    from tooltap.traces.learning.sketch import sketch

    try:
        parser_class(name)
    except UnknownDialectError as error:
        raise click.UsageError(str(error), context) from None
    code = 0
    for path in input_files(paths):
        try:
            data, is_whole = head_of(path)
        except UnreadableError as error:
            raise click.ClickException(str(error)) from None
        broken = broken_rules(name, read_recording(data))
        for sentence in broken:
            say(f"{path}: broken: {short(sentence, MAX_SENTENCE)}")
            code = 1
        lacking = [] if broken else missing(name, data, sketch(data))
        for sentence in lacking:
            say(f"{path}: missing: {short(sentence, MAX_SENTENCE)}")
        if not is_whole:
            say(f"{path}: only the first {MAX_BYTES // 1024 // 1024} MiB were checked")
        if not broken:
            say(f"{path}: keeps the rules" + (f", {counted(len(lacking), 'thing')} may be missing" if lacking else ""))
    context.exit(code)


def head_of(path: str) -> tuple[bytes, bool]:
    """Return the first `MAX_BYTES` of a recording up to a whole line, and whether that is all. Raises
    `UnreadableError`."""
    data = bytearray()
    for chunk in read_chunks(path):
        data += chunk
        if len(data) > MAX_BYTES:
            return bytes(data[: data.rfind(b"\n", 0, MAX_BYTES) + 1 or MAX_BYTES]), False
    return bytes(data), True
