"""`tooltap sessions`: lists the sessions in the journal, and removes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completers
from tooltap.cli.common.commands import Group
from tooltap.cli.common.connection import request, socket_option

__all__ = ["command", "list_sessions"]

PAGE = 1_000


@click.group(
    "sessions",
    cls=Group,
    invoke_without_command=True,
    examples=(
        "tooltap sessions",
        "tooltap sessions --limit 1000 --json | jq -r .session",
    ),
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many sessions to list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with all fields.")
@socket_option
@click.pass_context
def command(context: click.Context, limit: int, as_json: bool, socket: Path | None) -> None:
    """List the sessions in the journal.

    The session with the newest event comes first.
    """
    context.obj = socket
    if context.invoked_subcommand is not None:
        return
    sessions = list_sessions(socket, limit)
    if as_json:
        import orjson

        for one in sessions:
            click.echo(orjson.dumps(one))
        return
    from tooltap.cli.read.table import print_table

    columns = ("SESSION", "PROVIDER", "STATE", "LAST EVENT", "EVENTS", "CALLS", "ABOUT")
    print_table(columns, (_row(one) for one in sessions))


@command.command("rm", examples=("tooltap sessions rm 101730e3-98ed-4d2b-8e93-5caa86bfc39f",))
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completers.sessions)
@socket_option
@click.pass_obj
def remove(group_socket: Path | None, sessions: tuple[str, ...], socket: Path | None) -> None:
    """Delete sessions from the journal: events, output bodies and stored lines.

    A session that is still being written is not deleted. Traces and the agents' own files are not changed.
    """
    for session in sessions:
        removed = request(socket or group_socket, "remove", session=session)
        click.echo(f"{session}: {removed['events']} events deleted")


def list_sessions(socket: Path | None, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the sessions page by page, the one with the newest event first."""
    before = None
    while limit > 0:
        page = request(socket, "sessions", limit=min(limit, PAGE), before=before)
        yield from page["sessions"]
        limit -= len(page["sessions"])
        before = page.get("next")
        if before is None:
            return


def _row(session: dict[str, Any]) -> tuple[object, ...]:
    last = session.get("lastTs")
    return (
        session["session"],
        session.get("provider"),
        session["state"],
        last and datetime.fromtimestamp(last / 1000).strftime("%Y-%m-%d %H:%M"),
        session["events"],
        session["calls"],
        session.get("title") or session.get("cwd"),
    )
