"""`tooltap sessions`: lists the sessions in the journal, and removes them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completers
from tooltap.cli.common.commands import Group
from tooltap.cli.common.connection import is_refused, request, socket_option, wait_option
from tooltap.cli.common.printing import MAX_ID, at_terminal, on_stderr, say, say_json, short, warn
from tooltap.cli.common.suggestions import Choice
from tooltap.cli.read.nothing import NO_EVENTS
from tooltap.daemon.formats import counted

__all__ = ["command", "list_sessions"]

PAGE = 1_000
STATUSES = ("running", "waiting", "failed", "completed", "interrupted")
OLDER = (
    "the daemon is older than this command: sessions are listed in the order of ingestion, without a status; "
    "restart the daemon"
)
_AGE = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Moment(click.ParamType[int]):
    """A time: how long ago (`90s`, `10m`, `2h`, `1d`), or a date (`2026-11-24`, `2026-11-24T09:30`), which is local.
    Becomes milliseconds since the epoch."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if (match := _AGE.fullmatch(value)) is not None:
            return max(int((time.time() - int(match[1]) * _UNITS[match[2]]) * 1_000), 0)
        try:
            return max(int(datetime.fromisoformat(value).timestamp() * 1_000), 0)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not an age such as 2h or 1d, nor a date such as 2026-11-24", param, ctx)


@click.group(
    "sessions",
    cls=Group,
    invoke_without_command=True,
    examples=(
        "tooltap sessions",
        "tooltap sessions --status failed --agent codex --since 7d",
        "tooltap sessions --project . --limit 1000 --json | jq -r .session",
    ),
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many sessions to list.")
@click.option("--status", multiple=True, type=Choice(STATUSES), help="Sessions with this status.")
@click.option(
    "--agent", multiple=True, metavar="NAME", shell_complete=completers.providers, help="Sessions of this agent."
)
@click.option(
    "--project", multiple=True, metavar="DIR", help="Sessions in this directory, or in directories with this name."
)
@click.option("--since", type=Moment(), metavar="WHEN", help="Active at this time or later: 2h, 7d, 2026-11-24.")
@click.option("--until", type=Moment(), metavar="WHEN", help="Last active before this time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with all fields.")
@wait_option
@socket_option
@click.pass_context
def command(
    context: click.Context,
    limit: int,
    status: tuple[str, ...],
    agent: tuple[str, ...],
    project: tuple[str, ...],
    since: int | None,
    until: int | None,
    as_json: bool,
    socket: Path | None,
) -> None:
    """List the sessions in the journal.

    The most recently active session comes first. A terminal shows the columns that fit; a pipe gets all columns.
    """
    context.obj = socket
    if context.invoked_subcommand is not None:
        return
    wanted = {"status": status, "provider": agent, "since": since, "until": until}
    filters = {key: value for key, value in wanted.items() if value not in ((), None)}
    if project:
        filters["project"] = _projects(socket, project)
    sessions = list_sessions(socket, limit, **filters)
    if as_json:
        import orjson

        for one in sessions:
            say_json(orjson.dumps(one))
        return
    listed = list(sessions)
    if not listed:
        warn(_why_none(socket, filters))
        return
    from tooltap.cli.read.session_table import print_sessions

    print_sessions(listed)
    if len(listed) == limit and at_terminal():
        with suppress(OlderError):
            if (total := _count(socket, **filters)) > limit:
                on_stderr(f"{limit:,} of {counted(total, 'session')}; `--limit {total}` lists all")


class OlderError(click.ClickException):
    """The daemon can neither filter sessions nor count them."""

    def __init__(self) -> None:
        super().__init__("the daemon is older than this command, and cannot filter sessions; restart the daemon")


@command.command("rm", examples=("tooltap sessions rm 101730e3-98ed-4d2b-8e93-5caa86bfc39f",))
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completers.sessions)
@socket_option
@click.pass_context
def remove(context: click.Context, sessions: tuple[str, ...], socket: Path | None) -> None:
    """Delete sessions from the journal: events, output bodies and stored lines.

    A session that is still being written is not deleted. Traces and the agents' own files are not changed. If one of
    several sessions cannot be deleted, the others are; the exit code is 1.
    """
    complaints: list[str] = []
    for session in dict.fromkeys(sessions):
        try:
            removed = request(socket or context.obj, "remove", session=session)
        except click.ClickException as error:
            if len(sessions) == 1:
                raise
            if error.message in complaints:  # it concerns no session, but the daemon
                break
            complaints.append(error.message)
            warn(error.message)
        else:
            say(f"{short(session, MAX_ID)}: {removed['events']} events deleted")
    if complaints:
        context.exit(1)


def list_sessions(socket: Path | None, limit: int, **filters: Any) -> Iterator[dict[str, Any]]:
    """Yield the sessions page by page, the one that was active last first. `filters`: those of the request."""
    cursor = None
    while limit > 0:
        try:
            page = request(socket, "sessions", limit=min(limit, PAGE), order="time", cursor=cursor, **filters)
        except click.UsageError as error:
            if not is_refused(error, "order"):
                raise
            if filters:
                raise OlderError from None
            warn(OLDER)
            yield from _older_sessions(socket, limit)
            return
        yield from page["sessions"]
        limit -= len(page["sessions"])
        cursor = page.get("cursor")
        if cursor is None:
            return


def _older_sessions(socket: Path | None, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the sessions of a daemon that knows one order."""
    before = None
    while limit > 0:
        page = request(socket, "sessions", limit=min(limit, PAGE), before=before)
        yield from page["sessions"]
        limit -= len(page["sessions"])
        before = page.get("next")
        if before is None:
            return


def _count(socket: Path | None, **filters: Any) -> int:
    return sum(_facets(socket, **filters)["status"].values())


def _facets(socket: Path | None, **filters: Any) -> dict[str, dict[str, int]]:
    try:
        page = request(socket, "sessions", limit=1, facets=True, **filters)
    except click.UsageError as error:
        raise (OlderError() if is_refused(error, "facets") else error) from None
    facets: dict[str, dict[str, int]] = page["facets"]
    return facets


def _projects(socket: Path | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """The directories that are meant: a path is itself, a name is every project whose last part it is."""
    found: list[str] = []
    known: list[str] | None = None
    for name in names:
        if "/" in name or name in (".", ".."):
            found.append(os.path.abspath(name))
            continue
        known = list(_facets(socket)["project"]) if known is None else known
        found += [one for one in known if one.rstrip("/").rpartition("/")[2] == name] or [name]
    return tuple(dict.fromkeys(found))


def _why_none(socket: Path | None, filters: dict[str, Any]) -> str:
    total = _count(socket) if filters else 0
    if not total:
        return NO_EVENTS
    some = f"there {'is' if total == 1 else 'are'} {counted(total, 'session')}"
    return f"no session matches these filters; without them {some}"
