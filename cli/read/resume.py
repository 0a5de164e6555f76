"""`tooltap resume`: continues a session with its agent, in its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option, wait_option
from tooltap.cli.common.printing import flush, say, short, warn
from tooltap.cli.read.sessions import find_session
from tooltap.daemon.sessions.listing import is_live
from tooltap.daemon.sessions.resuming import fork_of, in_shell, resume_of

CANNOT_START = 127


class NotStartedError(click.ClickException):
    """The agent cannot be started."""

    exit_code = CANNOT_START


@click.command(
    "resume",
    cls=Command,
    examples=("tooltap resume last", "tooltap resume 0d3f --fork", "tooltap resume last --print"),
)
@click.argument("session", metavar="SESSION", shell_complete=completion.sessions)
@click.option("--fork", is_flag=True, help="Continue a copy, and leave the session as it is.")
@click.option("--print", "only_print", is_flag=True, help="Print the command line, and run nothing.")
@wait_option
@socket_option
def command(session: str, fork: bool, only_print: bool, socket: Path | None) -> None:
    """Resume a session with its agent.

    SESSION is a session's id, the beginning of it, words of its title, or "last". The agent takes over this terminal,
    in the folder of the session.
    """
    row = find_session(socket, session)
    words = _command(row, fork=fork)
    folder = row.get("cwd")
    if only_print:
        say(in_shell(words, folder))
        return
    import shutil  # those who only print do not wait for it

    if not folder:
        raise click.ClickException(f"the folder of session {short(row['session'])} is not known")
    program = shutil.which(words[0])
    if program is None:
        elsewhere = f"where it is, run `{in_shell(words, folder)}`"
        raise NotStartedError(f"{words[0]} is not installed here: it is not in PATH; {elsewhere}")
    try:
        os.chdir(folder)
    except OSError as error:
        raise click.ClickException(
            f"cannot enter the folder of the session, {short(folder, 500)}: {error.strerror}"
        ) from None
    if is_live(row) and not fork:
        warn("the session is still running: two agents may write to it now; `--fork` continues a copy of it")
    flush()
    try:
        os.execv(program, words)
    except OSError as error:
        raise NotStartedError(f"cannot start {words[0]}: {error.strerror}") from None


def _command(row: dict[str, Any], *, fork: bool) -> list[str]:
    """Return the words of the command. Raises `click.ClickException`."""
    words = fork_of(row) if fork else resume_of(row)
    if words is not None:
        return words
    provider = short(row["provider"])
    if fork and resume_of(row) is not None:
        raise click.ClickException(f"{provider} has no command that forks a session, as far as tooltap knows")
    if row["session"] in row["streams"]:
        raise click.ClickException(f"{provider} has not stated the id of session {short(row['session'])}")
    raise click.ClickException(f"{provider} has no command that continues this session, as far as tooltap knows")
