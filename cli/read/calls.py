"""`tooltap calls`: lists the calls of all sessions by how they ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common.columns import columns_of, fit, padded, terminal_columns
from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.connection import request, socket_option, wait_option, warn_of_unread
from tooltap.cli.common.filters import (
    agent_option,
    host_option,
    json_option,
    limit_option,
    project_option,
    session_option,
    time_options,
    tool_option,
)
from tooltap.cli.common.moments import SECOND, brief_time, local_time
from tooltap.cli.common.options import name_hint
from tooltap.cli.common.printing import (
    at_terminal,
    joined,
    on_stderr,
    say,
    say_object,
    say_text,
    short,
    styled,
    wants_colour,
    warn,
)
from tooltap.cli.read.search import OUTCOMES, project_path
from tooltap.cli.read.sessions import NO_EVENTS, find_session, short_ids
from tooltap.daemon.formats import counted, not_searched
from tooltap.daemon.sessions.listing import folder_name

FAMILIES = ("shell", "read", "edit", "search", "web", "task", "plan")
"""Families of tools; those of `mcp` and `other` have any names."""
PAGE = 500
"""Calls per request."""


@click.command(
    "calls",
    cls=Command,
    examples=(
        "tooltap calls --outcome failed --family edit --since 7d",
        "tooltap calls --file src/app.py --agent codex",
        "tooltap calls --tool Bash --outcome denied --json | jq '.calls[].error'",
    ),
)
@click.option("--outcome", multiple=True, type=Choice(OUTCOMES), help="Calls that ended like this. May be repeated.")
@tool_option("Calls")
@click.option("--family", multiple=True, type=Choice(FAMILIES), help="Calls of tools of this family. May be repeated.")
@agent_option(help="Calls in sessions of this agent (claude, codex, gemini, …). May be repeated.")
@project_option("Calls in sessions in this directory: its path, or its name. May be repeated.")
@host_option("Calls in sessions of")
@click.option("--file", metavar="PATH", help="Calls that name this file: its path, or the end of it.")
@session_option("Calls in")
@time_options("Calls that ended since then", "… until then; a day is included.")
@limit_option(50, "How many calls to list.")
@json_option("Print the daemon's answer as one JSON object.")
@wait_option
@socket_option
def command(
    outcome: tuple[str, ...],
    tool: tuple[str, ...],
    family: tuple[str, ...],
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    file: str | None,
    session: str | None,
    since: int | None,
    until: int | None,
    limit: int,
    as_json: bool,
    socket: Path | None,
) -> None:
    """List the calls of all sessions.

    The call that ended last comes first. Calls that have not ended are not listed: `tooltap top` shows them. Pass the
    number before a call to `tooltap show`.
    """
    filters: dict[str, Any] = {
        "outcome": outcome,
        "tool": (*tool, *_names(family)),
        "provider": agent,
        "project": tuple(project_path(one) for one in project),
        "host": host,
        "file": file,
        "since": since,
        "until": until,
    }
    given = {name: value for name, value in filters.items() if value not in ((), None)}
    if session is not None:
        given["session"] = (find_session(socket, session)["session"],)
    warn_of_unread(socket)
    answer = _ask(socket, limit, given)
    if as_json:
        say_object(answer)
        return
    calls = answer["calls"]
    if calls:
        (_print_calls if at_terminal() else _print_rows)(calls)
        if "next" in answer and at_terminal():
            on_stderr(f"the newest {counted(len(calls), 'call')}; `--limit {2 * limit}` lists more")
    else:
        warn(_why_none(socket, given, {"tool": tool, "provider": agent}))
    for sentence in not_searched(answer):
        warn(sentence)


def _names(families: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of all tools of some families."""
    if families:
        from tooltap.normalizers.tools.registry import names_in

        for family in families:
            yield from names_in(family)  # type: ignore[arg-type]


def _ask(socket: Path | None, limit: int, filters: dict[str, Any]) -> dict[str, Any]:
    """Request calls page by page; return one answer with all of them."""
    answer = request(socket, "ended-calls", limit=min(limit, PAGE), **filters)
    calls = answer["calls"]
    while len(calls) < limit and "next" in answer:
        answer = request(socket, "ended-calls", limit=min(limit - len(calls), PAGE), before=answer["next"], **filters)
        calls += answer["calls"]
    return {**answer, "calls": calls}


def _why_none(socket: Path | None, filters: dict[str, Any], names: dict[str, tuple[str, ...]]) -> str:
    if not request(socket, "sessions", limit=1, empty=True)["sessions"]:
        return NO_EVENTS
    if filters and request(socket, "ended-calls", limit=1)["calls"]:
        return f"no call matches these filters; without them there are some{name_hint(names)}"
    return "no call has ended yet"


HEADS = ("SEQ", "ENDED", "OUTCOME", "TOOL", "AGENT", "PROJECT", "SESSION", "TITLE", "CALL", "ERROR")
STYLES = {"failed": "red", "denied": "yellow", "cancelled": "dim", "interrupted": "dim"}
MAX_TEXT = 500
"""Code points of any text that are printed."""
MAX_TOOL = 14
"""Width in columns of the tool, and of an outcome that a newer daemon may state."""


def _print_rows(calls: list[dict[str, Any]]) -> None:
    say_text("\t".join(HEADS) + "\n")
    for one in calls:
        cells = (
            _seq(one),
            local_time(one.get("ts"), SECOND),
            one["outcome"],
            one["name"],
            one["provider"],
            one.get("project"),
            one["session"],
            one.get("title"),
            _call(one),
            one.get("error"),
        )
        say_text("\t".join("" if cell is None else short(cell, MAX_TEXT) for cell in cells) + "\n")


def _print_calls(calls: list[dict[str, Any]]) -> None:
    """Print two lines for each call: what it was and how it ended, and the session that it is in."""
    width = terminal_columns()
    digits = max(len(str(_seq(one))) for one in calls)
    tools = min(max(columns_of(short(one["name"])) for one in calls), MAX_TOOL)
    outcomes = min(max(columns_of(short(one["outcome"])) for one in calls), MAX_TOOL)
    ids = short_ids([one["session"] for one in calls])
    for one, name in zip(calls, ids, strict=True):
        outcome = padded(fit(short(one["outcome"]), outcomes), outcomes)
        style = STYLES.get(one["outcome"])
        before = f"{_seq(one):>{digits}}  {brief_time(one.get('ts')):11}  "
        tool = f"  {padded(fit(short(one['name']), tools), tools)}  "
        said = ": ".join(short(text, MAX_TEXT) for text in (_call(one), one.get("error")) if text)
        room = width - columns_of(before) - columns_of(outcome) - columns_of(tool)
        shown = styled(outcome, style) if style and wants_colour() else outcome
        say(joined([before, shown, tool, fit(said, room)]))
        about = [one.get("title"), folder_name(str(one.get("project") or "")), one["provider"]]
        line = " · ".join(short(part) for part in about if part)
        indent = " " * (digits + 2)
        room = width - len(indent) - len(" · ") - len(name)
        session = fit(f"{indent}{fit(line, room)} · {short(name)}", width)
        say(styled(session, "dim") if wants_colour() else session)


def _seq(call: dict[str, Any]) -> int:
    return int(call.get("seq") or call["resultSeq"])


def _call(call: dict[str, Any]) -> str:
    return call.get("preview") or call.get("callTitle") or ""
