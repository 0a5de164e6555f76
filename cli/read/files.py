"""`tooltap files`: lists the files that all sessions changed, or one, and prints the diff of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option, warn_of_unread
from tooltap.cli.common.filters import (
    agent_option,
    host_option,
    json_option,
    limit_option,
    project_option,
    time_options,
)
from tooltap.cli.common.options import name_hint
from tooltap.cli.common.printing import (
    at_terminal,
    binary_output,
    flush,
    joined,
    lines_of,
    say,
    say_object,
    say_text,
    short,
    styled,
    wants_colour,
    warn,
)
from tooltap.cli.read.changed_files import print_changed_files, warn_of_uncounted
from tooltap.cli.read.sessions import NO_EVENTS, UnknownSessionError, find_projects, find_session
from tooltap.daemon.formats import counted
from tooltap.daemon.system.sanitize import encodable
from tooltap.daemon.system.shell import shell_line

STYLES = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}
LETTERS = {"added": "A", "modified": "M", "deleted": "D", "renamed": "R"}
OMITTED = {"binary": "is binary", "large": "is too large to be compared"}
NO_FILES = "according to their events, no sessions changed any files"
ORDERS = ("changes", "lines", "time")
MAX_PATH = 500
"""Code points of a path that are printed."""


@click.command(
    "files",
    cls=Command,
    examples=(
        "tooltap files --since 7d",
        "tooltap files last",
        "tooltap files last src/app.py",
        "tooltap files last --json | jq -r '.files[].path'",
    ),
)
@click.argument("session", required=False, shell_complete=completion.sessions)
@click.argument("path", required=False)
@time_options("Changes at this time or later", "Changes before this time, or on this day.")
@agent_option(help="By this agent.")
@project_option("By sessions in this directory, or in ones with this name.")
@host_option("By sessions of")
@click.option("--file", "part", metavar="TEXT", help="Files with this text in their path.")
@click.option(
    "--order", type=click.Choice(ORDERS), default=ORDERS[0], show_default=True, help="What comes first, most or latest."
)
@limit_option(50, "How many files to list.", most=1_000)
@json_option("Print the daemon's reply as one JSON object.")
@wait_option
@socket_option
@click.pass_context
def command(
    context: click.Context,
    session: str | None,
    path: str | None,
    since: int | None,
    until: int | None,
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    part: str | None,
    order: str,
    limit: int,
    as_json: bool,
    socket: Path | None,
) -> None:
    """Show which files were changed: by all sessions, or by one.

    Without a SESSION, list the files that sessions changed, those with the most changes first; the options choose among
    them. Lines are summed over the changes.

    SESSION is an id, the beginning of one, `last`, or words of a title: list what it changed in the end. With a PATH,
    print the file's diff from before the session until now, all changes as one. `~` marks a diff that may be
    incomplete: the agent did not state everything, or something else changed the file too.

    Changes made by shell commands are not included.
    """
    if session is None:
        wanted = {"provider": agent, "host": host, "since": since, "until": until, "file": part}
        filters = {key: value for key, value in wanted.items() if value not in ((), None)}
        if project:
            filters["project"] = find_projects(socket, project)
        warn_of_unread(socket)
        found = request(socket, "changed-files", limit=limit, order=order, **filters)
        if as_json:
            say_object(found)
            return
        if found["files"]:
            print_changed_files(found)
        else:
            warn(_why_none(socket, filters, agent))
        warn_of_uncounted(found)
        return
    for one in ("since", "until", "agent", "project", "host", "part", "order", "limit"):
        if context.get_parameter_source(one) is ParameterSource.COMMANDLINE:
            name = "file" if one == "part" else one
            raise click.UsageError(f"--{name} is for the files of all sessions; leave out {session!r}")
    try:
        name = find_session(socket, session)["session"]
    except UnknownSessionError as error:
        if path is None and ("/" in session or Path(session).exists()):
            advice = f"for a path, name the session first, or try `tooltap files --file {shell_line(session)}`"
            raise UnknownSessionError(f"{error.message}; {advice}") from None
        raise
    found = request(socket, "files", session=name, file=path)
    if as_json:
        say_object(found)
    elif path is not None:
        _print_diff(found["file"])
    else:
        _print_list(found)


def _why_none(socket: Path | None, filters: dict[str, Any], agent: tuple[str, ...]) -> str:
    if not request(socket, "sessions", limit=1, empty=True)["sessions"]:
        return NO_EVENTS
    total = request(socket, "changed-files", limit=1)["total"] if filters else 0
    if not total:
        return NO_FILES
    there = f"without them there are {counted(total, 'file')}{name_hint({'provider': agent})}"
    return f"according to their events, no sessions changed files that match these filters; {there}"


def _print_list(found: dict[str, Any]) -> None:
    files = found["files"]
    if not files:
        warn("according to its events, the session changed no files; changes made by shell commands are not included")
        return
    counts = [(_count("+", one.get("added")), _count("-", one.get("removed"))) for one in files]
    in_colour = wants_colour()
    widths = [max(len(row[column]) for row in counts) for column in (0, 1)]
    for one, (added, removed) in zip(files, counts, strict=True):
        path = short(one["path"], MAX_PATH)
        name = f"{short(one['oldPath'], MAX_PATH)} -> {path}" if one.get("oldPath") else path
        parts = [
            f"{LETTERS.get(one['kind'], '?')}{' ' if one['complete'] else '~'} ",
            *(
                (styled(added.rjust(widths[0]), "green"), " ", styled(removed.rjust(widths[1]), "red"))
                if in_colour
                else (f"{added.rjust(widths[0])} {removed.rjust(widths[1])}",)
            ),
            f"  {name}",
        ]
        say_text(lines_of(joined(parts)))
    more = "" if found["complete"] else "; there are more"
    total = [sum(one.get(key) or 0 for one in files) for key in ("added", "removed")]
    if at_terminal():
        say(f"{counted(len(files), 'file')}, {counted(total[0], 'line')} added, {total[1]} removed in the end{more}")


def _print_diff(file: dict[str, Any]) -> None:
    if file.get("omitted"):
        warn(f"{short(file['path'], MAX_PATH)} {OMITTED.get(file['omitted'], file['omitted'])}")
    elif not file["hunks"] and not file["complete"]:
        warn(f"the agent did not state how it changed {short(file['path'], MAX_PATH)}")
    elif not file["complete"]:
        warn("this may be incomplete: see `tooltap files --help`")
    if not at_terminal():
        binary_output().write(encodable(file["diff"]).encode())  # as it is: programs apply it
        flush()
        return
    in_colour, is_head = wants_colour(), True
    for line in file["diff"].removesuffix("\n").split("\n"):
        is_head = is_head and not line.startswith("@@")
        style = ("dim" if is_head else STYLES.get(line[:1])) if in_colour else None
        say_text(lines_of(joined([line]) if style is None else styled(line, style)))


def _count(sign: str, count: int | None) -> str:
    return f"{sign}?" if count is None else f"{sign}{count}"
