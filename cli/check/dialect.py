"""`tooltap dialect`: lists dialects, writes a package with a new one, and checks one."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.commands import Group
from tooltap.cli.common.printing import say, warn


@click.group(
    "dialect",
    cls=Group,
    examples=(
        "tooltap dialect list",
        "tooltap dialect new quill-json",
    ),
)
def command() -> None:
    """List dialects, and write and check your own."""


@command.command("list", short_help="List all dialects.", examples=("tooltap dialect list",))
@click.pass_context
def list_(context: click.Context) -> None:
    """List all dialects: those of tooltap with what they read, and those of other packages with their package.

    A dialect that cannot be used is said on standard error; then the exit code is 1.
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
