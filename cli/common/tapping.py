"""What `run` and `proxy` are: commands that run an agent with a tap on it. And the options of all that spool."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.completing import agent_commands
from tooltap.cli.common.connection import socket_option, stream_options
from tooltap.daemon.system.paths import socket_path, spool_path
from tooltap.daemon.taps.child import run_child
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.normalizers.core.agents import missing_flags

__all__ = ["agent_command", "bytes_option", "spool_options"]

F = TypeVar("F", bound=Callable[..., Any])

CANNOT_START = 127


def agent_command(name: str, description: str, *, both_ways: bool, examples: tuple[str, ...]) -> Command:
    """`both_ways`: what the agent is told is tapped as well as what it prints."""

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
    @stream_options
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
            click.echo(f"tooltap: not tapped: {command[0]} prints no stream this way, add {flags}", err=True)
            context.exit(_replace_us_by(command))
        options = StreamOptions(f"{name}-{secrets.token_hex(8)}", dialect, provider, session, mcp_servers)
        tap = Tap(options, socket or socket_path(), SpoolLimits(spool_path(), spool_bytes, spool_total_bytes))
        tap_input = partial(tap.take, direction="in") if both_ways else None
        try:
            code = run_child(command, partial(tap.take, direction="out"), tap_input)
        except OSError as error:
            click.echo(f"tooltap: cannot start {command[0]}: {error.strerror}", err=True)
            context.exit(CANNOT_START)
        if (trouble := tap.finish()) is not None:
            click.echo(f"tooltap: {trouble}", err=True)
        context.exit(code)

    return command


def spool_options(function: F) -> F:
    """Adds how much is kept on disk while the daemon is away."""
    defaults = SpoolLimits._field_defaults
    for option, description in (
        ("--spool-total-bytes", "What is kept on disk of all streams."),
        ("--spool-bytes", "What is kept on disk of one stream while the daemon is away."),
    ):
        function = bytes_option(option, defaults[_name(option)], description)(function)
    return function


def bytes_option(option: str, default: int, description: str) -> Callable[[F], F]:
    """A bound, which a variable can set as well."""
    return click.option(
        option,
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        envvar=f"TOOLTAP_{_name(option).upper()}",
        show_envvar=True,
        metavar="N",
        help=description,
    )


def _name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _replace_us_by(command: tuple[str, ...]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        click.echo(f"tooltap: cannot start {command[0]}: {error.strerror}", err=True)
        return CANNOT_START
