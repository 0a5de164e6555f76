"""`tooltap mcp`: an MCP server with display tools, by which a model shows files to the user without reading them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option
from tooltap.daemon.system.optional_packages import how_to_install

NEEDED = ("mcp", "pygments")
MEBIBYTE = 1_048_576


@click.command(
    "mcp",
    cls=Command,
    examples=(
        "tooltap mcp",
        "tooltap mcp --root docs --allow-commands --command-timeout 30",
    ),
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="A folder whose files may be shown; repeatable.  [default: the working folder]",
)
@click.option(
    "--allow-commands", is_flag=True, help="Offer `run_and_display`, which runs any command the model asks for."
)
@click.option(
    "--command-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop a command after this time.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=8 * MEBIBYTE,
    show_default=True,
    metavar="N",
    help="Longest file that may be shown, and longest output of a command.",
)
@click.option(
    "--session",
    metavar="NAME",
    shell_complete=completion.sessions,
    help="The session of the events.  [default: a new session]",
)
@click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completion.providers,
    help="The provider named in the events.  [default: tooltap]",
)
@socket_option
def command(
    roots: tuple[Path, ...],
    allow_commands: bool,
    command_timeout: float,
    max_bytes: int,
    session: str | None,
    provider: str | None,
    socket: Path | None,
) -> None:
    """Offer display tools as an MCP server, on standard input and output.

    With these tools a model shows files, images and the output of commands to the user through the daemon, and reads
    only one line of confirmation. Configure an agent to start this command as one of its MCP servers.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise click.ClickException(f"{' and '.join(missing)} not installed: {how_to_install('mcp')}")
    import anyio

    from tooltap.daemon.taps.mcp.commands import Commands
    from tooltap.daemon.taps.mcp.tools import DisplayStream, serve

    folders = list(roots) or [Path.cwd()]

    async def run() -> None:
        commands = Commands(folders[0], timeout=command_timeout, max_bytes=max_bytes) if allow_commands else None
        await serve(folders, DisplayStream(socket, session, provider), commands, max_bytes)

    anyio.run(run)
