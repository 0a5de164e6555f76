"""`tooltap mcp`: tools with which an agent's model shows the user what it need not see itself."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from tooltap.cli.common import completing
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option

__all__ = ["command"]

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
    help="A folder whose files may be shown; may be given again.  [default: the working folder]",
)
@click.option("--allow-commands", is_flag=True, help="Offer `run_and_display`, which runs any command of the model's.")
@click.option(
    "--command-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="A command that runs for longer is stopped.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=8 * MEBIBYTE,
    show_default=True,
    metavar="N",
    help="Length of a file that may be shown, and of a command's output.",
)
@click.option(
    "--session",
    metavar="NAME",
    shell_complete=completing.sessions,
    help="The session that the events belong to.  [default: one of its own]",
)
@click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completing.providers,
    help="The agent that the events are of.  [default: tooltap]",
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

    With them a model shows the user files, images and commands' output through the daemon, and reads one line of
    confirmation itself. To be started by an agent, as one of its MCP servers.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise click.ClickException(f"{' and '.join(missing)} not installed: pip install 'tooltap[mcp]'")
    import anyio

    from tooltap.daemon.taps.mcp.commands import Commands
    from tooltap.daemon.taps.mcp.server import serve
    from tooltap.daemon.taps.mcp.stream import DisplayStream

    folders = list(roots) or [Path.cwd()]

    async def run() -> None:
        commands = Commands(folders[0], timeout=command_timeout, max_bytes=max_bytes) if allow_commands else None
        await serve(folders, DisplayStream(socket, session, provider), commands, max_bytes)

    anyio.run(run)
