"""`tooltap mcp`: an MCP server by whose tools a model shows files to the user, and finds what agents did before."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option

MEBIBYTE = 1_048_576


@click.command(
    "mcp",
    cls=Command,
    examples=(
        "tooltap mcp",
        "tooltap mcp --root docs --allow-commands --command-timeout 30",
        "tooltap mcp --history",
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
@click.option(
    "--history",
    is_flag=True,
    help="Also offer tools that search and read the sessions of agents in the project of the working folder.",
)
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="With --history: sessions of this project instead; repeatable.",
)
@click.option("--all-projects", is_flag=True, help="With --history: sessions of all projects.")
@socket_option
def command(
    roots: tuple[Path, ...],
    allow_commands: bool,
    command_timeout: float,
    max_bytes: int,
    session: str | None,
    provider: str | None,
    history: bool,
    projects: tuple[Path, ...],
    all_projects: bool,
    socket: Path | None,
) -> None:
    """Offer tools to agents as an MCP server, on standard input and output.

    With the display tools a model shows files, images and the output of commands to the user through the daemon, and
    reads only one line of confirmation. With --history it can also find what agents did before: with secrets masked,
    and in the project of the working folder alone. Configure an agent to start this command as one of its MCP servers.
    """
    if (projects or all_projects) and not history:
        raise click.UsageError("--project and --all-projects are for --history")
    if projects and all_projects:
        raise click.UsageError("--project and --all-projects exclude each other")
    from tooltap.daemon.taps.mcp.offered import Settings
    from tooltap.daemon.taps.mcp.serving import serve

    readable = None if all_projects else [*projects] or [Path.cwd()]
    timeout = command_timeout if allow_commands else None
    serve(Settings([*roots] or [Path.cwd()], timeout, max_bytes, session, provider, socket, history, readable))
