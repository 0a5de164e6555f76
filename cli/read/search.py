"""`tooltap search`: finds words in the text of all sessions."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completers
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.printing import at_terminal, say_json, warn
from tooltap.cli.common.suggestions import Choice

__all__ = ["STATES", "command"]

PER_SESSION = 3
"""Hits of one session, unless only one is searched."""
STATES = ["running", "waiting", "failed", "completed", "interrupted"]
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Milliseconds since the epoch: of a date, or as long ago as a duration."""
    if value is None:
        return None
    if ago := re.fullmatch(r"(\d{1,9})([smhdw])", value):
        return max(0, time.time_ns() // 1_000_000 - int(ago[1]) * UNITS[ago[2]] * 1_000)
    try:
        return max(0, int(datetime.fromisoformat(value).timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is neither a duration such as 2h or 7d nor a date", ctx, param) from None


@click.command(
    "search",
    cls=Command,
    examples=(
        "tooltap search database migration",
        "tooltap search 'connection refused' --since 7d",
        "tooltap search test_login --project shop --tool Bash",
        "tooltap search TODO --session last --json | jq '.hits[].seq'",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@click.option(
    "--agent",
    multiple=True,
    metavar="NAME",
    shell_complete=completers.providers,
    help="Sessions of this agent (claude, codex, gemini, …). May be repeated.",
)
@click.option(
    "--project",
    multiple=True,
    metavar="DIR",
    help="Sessions in this directory: its path, or its name. May be repeated.",
)
@click.option(
    "--tool",
    multiple=True,
    metavar="NAME",
    shell_complete=completers.tools,
    help="Calls and results of this tool, by its canonical name or the agent's name for it. May be repeated.",
)
@click.option(
    "--state",
    multiple=True,
    type=Choice(STATES),
    help="Sessions in this state. May be repeated.",
)
@click.option("--since", callback=_moment, metavar="TIME", help="Events since then: 2h, 7d, 2026-11-24.")
@click.option("--until", callback=_moment, metavar="TIME", help="Events until then.")
@click.option(
    "--session",
    metavar="NAME",
    shell_complete=completers.sessions,
    help='Events of this session: its id, the beginning of it, words of its title, or "last".',
)
@click.option(
    "--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="How many events to show, at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print the daemon's answer as one JSON object.")
@wait_option
@socket_option
def command(
    words: tuple[str, ...],
    agent: tuple[str, ...],
    project: tuple[str, ...],
    tool: tuple[str, ...],
    state: tuple[str, ...],
    since: int | None,
    until: int | None,
    session: str | None,
    limit: int,
    as_json: bool,
    socket: Path | None,
) -> None:
    """Search the text of all sessions.

    Finds the events that contain all of WORDS: messages, reasoning, the arguments of calls, and the beginning of their
    output. Words in quotes must be next to each other. The newest events come first, grouped by session; pass the
    number before an event to `tooltap show`.
    """
    query = " ".join(f'"{one}"' if re.search(r"\s", one) and '"' not in one else one for one in words)
    filters: dict[str, Any] = {
        "provider": agent,
        "project": tuple(_path(one) for one in project),
        "tool": tool,
        "status": state,
        "since": since,
        "until": until,
    }
    given = {name: value for name, value in filters.items() if value not in ((), None)}
    if session is not None:
        from tooltap.cli.read.session_names import find_session

        given["session"] = (find_session(socket, session)["session"],)
    most = {} if session is not None else {"perSession": PER_SESSION}
    answer = request(socket, "search", query=query, limit=limit, **most, **given)
    if as_json:
        import orjson

        say_json(orjson.dumps(answer))
        return
    if answer["hits"]:
        from tooltap.cli.read.hits import print_hits, print_rows

        (print_hits if at_terminal() else print_rows)(answer)
    else:
        from tooltap.cli.read.nothing import why_not_found

        warn(why_not_found(socket, query, given, answer))
    for sentence in _limits(answer):
        warn(sentence)


def _path(project: str) -> str:
    """A name stays a name; what looks like a path is one from here."""
    return str(Path(project).expanduser().absolute()) if "/" in project or project in (".", "..", "~") else project


def _limits(answer: dict[str, Any]) -> list[str]:
    """What was not searched."""
    said = []
    if not answer["complete"]:
        said.append("the search was stopped because it took too long; add a word or a filter to narrow it")
    if answer["behind"]:
        said.append(f"events after {answer['upto']} are not indexed yet; try again in a moment")
    if floor := answer.get("floor"):
        said.append(f"events up to {floor} are not searched: the index would be larger than `index_bytes`")
    return said
