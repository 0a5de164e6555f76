"""`tooltap usage`: tokens and costs, summed up by day, model, project, agent, session or subagent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completers
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.printing import say, say_json

__all__ = ["command"]

BY = ("day", "model", "project", "agent", "session", "subagent")
DAY_MS = 86_400_000


def _in_days(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """A day, or an age in days, as days since the epoch (UTC)."""
    import re
    import time
    from datetime import date

    if value is None:
        return None
    today = time.time_ns() // (DAY_MS * 1_000_000)
    if re.fullmatch(r"[0-9]{1,5}d", value):
        return max(0, today - int(value[:-1]))
    try:
        day = (date.fromisoformat(value) - date(1970, 1, 1)).days
    except ValueError:
        day = -1
    if day < 0:
        raise click.BadParameter(
            "expected a day such as 2026-11-24, or an age in days such as 7d", context, option
        ) from None
    return day


@click.command(
    "usage",
    cls=Command,
    examples=(
        "tooltap usage",
        "tooltap usage --by model --since 7d",
        "tooltap usage --by session --json | jq .rows[0]",
    ),
)
@click.option("--by", type=click.Choice(BY), default="day", show_default=True, help="What to group by.")
@click.option("--since", callback=_in_days, metavar="DAY", help="The first day: 2026-11-24, or 7d for a week ago.")
@click.option("--until", callback=_in_days, metavar="DAY", help="The last day.")
@click.option(
    "--session", multiple=True, metavar="ID", shell_complete=completers.sessions, help="Only this session; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@wait_option
@socket_option
def command(
    by: str, since: int | None, until: int | None, session: tuple[str, ...], as_json: bool, socket: Path | None
) -> None:
    """Show sums of the tokens and costs of sessions.

    A cost is the agent's own figure if it states one. Otherwise it is an estimate from the prices of the models, marked
    with ~. Days are in UTC.
    """
    if since is not None and until is not None and until < since:
        raise click.UsageError("--until is before --since")
    bounds: dict[str, Any] = {
        "since": None if since is None else since * DAY_MS,
        "until": None if until is None else (until + 1) * DAY_MS,
        "session": session or None,
    }
    found = request(socket, "usage", by=by, **bounds)
    if as_json:
        import orjson

        say_json(orjson.dumps(found))
        return
    if not found["rows"]:
        say(_why_nothing(socket, is_chosen=any(value is not None for value in bounds.values())))
        return
    from tooltap.cli.read.usage_table import print_usage

    print_usage(by, found)


def _why_nothing(socket: Path | None, *, is_chosen: bool) -> str:
    from tooltap.cli.read.nothing import NO_EVENTS

    if is_chosen and (tokens := request(socket, "usage")["total"]["inputTokens"]):
        return (
            f"nothing was used in these days and sessions; without --since, --until and --session there are {tokens:,}"
            " input tokens"
        )
    if not request(socket, "sessions", limit=1)["sessions"]:
        return NO_EVENTS
    return "no agent of the journal's sessions has stated tokens or a cost"
