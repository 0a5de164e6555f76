"""`tooltap follow`: asks the daemon to read session files again."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Group
from tooltap.cli.common.connection import request, socket_option
from tooltap.cli.common.printing import say
from tooltap.daemon.formats import counted


@click.group("follow", cls=Group, examples=("tooltap follow reread 101730e3",))
def command() -> None:
    """Read session files again after retention has deleted their events."""


@command.command(
    "reread",
    examples=(
        "tooltap follow reread 101730e3-98ed-4d2b-8e93-5caa86bfc39f",
        "tooltap follow reread --agent claude",
        "tooltap follow reread --all",
    ),
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option(
    "--agent", multiple=True, metavar="NAME", shell_complete=completion.followed_agents, help="All of this agent."
)
@click.option("--all", "everything", is_flag=True, help="All of all agents.")
@socket_option
def reread(sessions: tuple[str, ...], agent: tuple[str, ...], everything: bool, socket: Path | None) -> None:
    """Read session files again after retention has deleted their events.

    Sessions are named by their ids, or by the beginnings of these. What is still in the journal is not read again. The
    files are read in the background; `tooltap sessions` lists the sessions as they come.
    """
    if bool(sessions) + bool(agent) + everything != 1:
        raise click.UsageError("Name sessions, or give `--agent NAME`, or `--all`.")
    wanted = {"session": sessions, "agent": agent}
    found = request(socket, "reread", **{key: names for key, names in wanted.items() if names})
    if found["files"]:
        say(f"{counted(found['files'], 'file is', 'files are')} read again")
    if found["missing"]:
        say(f"{counted(found['missing'], 'file does', 'files do')} not exist any more")
    if not (found["files"] or found["missing"]):
        say("there is nothing to read again: retention has not deleted it, or it never came from a file")
