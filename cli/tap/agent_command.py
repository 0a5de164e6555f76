"""Makes the commands `run` and `proxy`, which start an agent and tap it."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.completers import agent_commands
from tooltap.cli.common.connection import publisher_options, socket_option
from tooltap.cli.tap.spool_options import spool_options
from tooltap.daemon.system.paths import socket_path, spool_path
from tooltap.daemon.taps.child import run_child
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.normalizers.catalog.agents import missing_flags

__all__ = ["agent_command"]

CANNOT_START = 127


def agent_command(name: str, description: str, *, both_ways: bool, examples: tuple[str, ...]) -> Command:
    """`both_ways`: tap the agent's standard input as well as its standard output."""

    @click.command(
        name,
        cls=Command,
        help=description,
        examples=examples,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument(
        "command",
        nargs=-1,
        required=True,
        type=click.UNPROCESSED,
        metavar="-- COMMAND [ARGUMENT]...",
        shell_complete=agent_commands,
    )
    @publisher_options
    @spool_options
    @socket_option
    @click.pass_context
    def command(
        context: click.Context,
        command: tuple[str, ...],
        dialect: str,
        provider: str | None,
        session: str | None,
        mcp_servers: tuple[str, ...],
        spool_bytes: int,
        spool_total_bytes: int,
        socket: Path | None,
    ) -> None:
        if (flags := missing_flags(command)) is not None:
            click.echo(
                f"tooltap: not tapped: {command[0]} prints no event stream with these arguments; add {flags}", err=True
            )
            context.exit(_exec(command))
        options = StreamOptions(f"{name}-{secrets.token_hex(8)}", dialect, provider, session, mcp_servers)
        tap = Tap(options, socket or socket_path(), SpoolLimits(spool_path(), spool_bytes, spool_total_bytes))
        tap_input = partial(tap.take, direction="in") if both_ways else None
        try:
            code = run_child(command, partial(tap.take, direction="out"), tap_input)
        except OSError as error:
            click.echo(f"tooltap: cannot start {command[0]}: {error.strerror}", err=True)
            context.exit(CANNOT_START)
        if (problem := tap.finish()) is not None:
            click.echo(f"tooltap: {problem}", err=True)
        context.exit(code)

    return command


def _exec(command: tuple[str, ...]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        click.echo(f"tooltap: cannot start {command[0]}: {error.strerror}", err=True)
        return CANNOT_START
