"""`tooltap search`: finds words in the text of all sessions."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common.columns import columns_of, fit, fit_end
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
from tooltap.cli.common.moments import MINUTE, SECOND, brief_time, local_time
from tooltap.cli.common.options import name_hint
from tooltap.cli.common.printing import (
    at_terminal,
    joined,
    say,
    say_object,
    say_text,
    short,
    styled,
    wants_colour,
    warn,
)
from tooltap.cli.read.sessions import NO_EVENTS, STATUSES, find_session
from tooltap.daemon.formats import NOT_INDEXED, counted, not_searched
from tooltap.daemon.sessions.listing import folder_name

PER_SESSION = 3
"""Hits shown of each session, unless only one is searched."""
OUTCOMES = ("completed", "failed", "denied", "cancelled", "interrupted")
OPTIONS = {"provider": "agent", "status": "state"}
"""Key of a search request -> name of its option, where they differ."""


@click.command(
    "search",
    cls=Command,
    examples=(
        "tooltap search database migration",
        "tooltap search 'connection refused' --since 7d",
        "tooltap search FAIL --outcome failed",
        "tooltap search test_login --project shop --tool Bash",
        "tooltap search --since 7d --tool Edit",
        "tooltap search TODO --session last --json | jq '.hits[].seq'",
    ),
)
@click.argument("words", nargs=-1, metavar="[WORDS...]")
@agent_option(help="Sessions of this agent (claude, codex, gemini, …). May be repeated.")
@project_option("Sessions in this directory: its path, or its name. May be repeated.")
@host_option("Sessions of")
@tool_option("Calls and results")
@click.option(
    "--state",
    multiple=True,
    type=Choice(STATUSES),
    help="Sessions in this state. May be repeated.",
)
@click.option(
    "--outcome",
    multiple=True,
    type=Choice(OUTCOMES),
    help="Calls that ended like this, and their outputs. May be repeated.",
)
@time_options("Events since then", "Events until then; a day is included.")
@session_option("Events of")
@limit_option(20, "How many events to show, at most.", most=100)
@json_option("Print the daemon's answer as one JSON object.")
@wait_option
@socket_option
def command(
    words: tuple[str, ...],
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    tool: tuple[str, ...],
    state: tuple[str, ...],
    outcome: tuple[str, ...],
    since: int | None,
    until: int | None,
    session: str | None,
    limit: int,
    as_json: bool,
    socket: Path | None,
) -> None:
    """Search the text of all sessions.

    Finds the events that contain all of WORDS: messages, reasoning, the arguments of calls, and the beginning and the
    end of their output. Words in quotes must be next to each other. The newest events come first, grouped by session;
    pass the number before an event to `tooltap show`. Without WORDS, all events that have a text are found: what
    happened last, in whichever order it was stored.
    """
    query = " ".join(f'"{one}"' if re.search(r"\s", one) and '"' not in one else one for one in words)
    filters: dict[str, Any] = {
        "provider": agent,
        "project": tuple(project_path(one) for one in project),
        "host": host,
        "tool": tool,
        "status": state,
        "outcome": outcome,
        "since": since,
        "until": until,
    }
    given = {name: value for name, value in filters.items() if value not in ((), None)}
    if session is not None:
        given["session"] = (find_session(socket, session)["session"],)
    most = {} if session is not None or not words else {"perSession": PER_SESSION}
    warn_of_unread(socket)
    answer = request(socket, "search", query=query, limit=limit, **most, **given)
    if as_json:
        say_object(answer)
        return
    if answer["hits"]:
        if at_terminal():
            print_hits(answer, by_time=not words)
        else:
            print_rows(answer)
    else:
        warn(_why_not_found(socket, query, given, answer))
    for sentence in not_searched(answer):
        warn(sentence)


def project_path(project: str) -> str:
    """Return a project's name unchanged, and a path as an absolute one."""
    return str(Path(project).expanduser().absolute()) if "/" in project or project in (".", "..", "~") else project


def _why_not_found(socket: Path | None, query: str, filters: dict[str, Any], answer: dict[str, Any]) -> str:
    """Say why nothing was found."""
    if not answer["upto"] and not answer["behind"]:
        return NO_EVENTS
    given = [f"--{OPTIONS.get(name, name)}" for name in filters]
    if given:
        everywhere = request(socket, "search", query=query, limit=1)
        names = {name: tuple(filters.get(name, ())) for name in ("tool", "provider")}
        if total := everywhere.get("total"):
            return f"nothing found with {', '.join(given)}; without there are {counted(total, 'hit')}{name_hint(names)}"
    if not query:
        return "no event has a text yet"
    return f"nothing found for {'all of ' if ' ' in query else ''}{query}; {NOT_INDEXED}"


MOST_WIDTH, LEAST_WIDTH = 160, 40
ABOUT = 16
"""Width in columns of the tool or kind of a hit."""
SAID = {"message": "said", "reasoning": "thought", "session": "session"}


def print_rows(answer: dict[str, Any]) -> None:
    for hit in answer["hits"]:
        cells = (hit["seq"], hit["session"], local_time(hit.get("ts"), SECOND), _about(hit), hit["text"])
        say_text("\t".join(short(one, 1_000) for one in cells) + "\n")


def print_hits(answer: dict[str, Any], *, by_time: bool) -> None:
    """`by_time`: hits stay in their order, and a session is named wherever another one was before."""
    import shutil

    width = max(LEAST_WIDTH, min(shutil.get_terminal_size().columns, MOST_WIDTH))
    sessions = {one["session"]: one for one in answer["sessions"]}
    hits: list[dict[str, Any]] = answer["hits"]
    places = {hit["session"]: place for place, hit in reversed([*enumerate(hits)])}
    if not by_time:
        hits = sorted(hits, key=lambda hit: places[hit["session"]])
    what = "event" if by_time else "hit"
    digits = max(len(str(hit["seq"])) for hit in hits)
    for name, group in groupby(hits, key=lambda hit: hit["session"]):
        together = [*group]
        _print_session(name, sessions.get(name, {}), len(together), what, width)
        for hit in together:
            _print_hit(hit, digits, width)
        say()
    others = max(0, (answer.get("foundIn") or 0) - len(places))
    total = counted(answer.get("total") or len(hits), what)
    found = f"{total} in {counted(answer.get('foundIn') or len(places), 'session')}"
    more = f"; {others:,} not shown" if others else ""
    say(_dim(fit(f"{found}{more}. `tooltap show SEQ` shows an event.", width)))


def _print_session(name: str, session: dict[str, Any], shown: int, what: str, width: int) -> None:
    hits = session.get("hits") or shown
    project = folder_name(str(session.get("project") or ""))
    about = [
        session.get("provider"),
        project,
        session.get("status"),
        local_time(session.get("lastTs"), MINUTE),
        counted(hits, what),
    ]
    say(_bold(fit(short(session.get("title") or project or name), width)))
    line, known = " · ".join(short(one) for one in about if one), short(name)
    fits_together = len(line) + len(known) + 3 <= width
    for one in [f"{line} · {known}"] if fits_together else [line, known]:
        say(_dim(fit(one, width)))


def _print_hit(hit: dict[str, Any], digits: int, width: int) -> None:
    head = f"  {hit['seq']:>{digits}}  {brief_time(hit.get('ts')):11}  {fit(_about(hit), ABOUT):{ABOUT}}  "
    parts = _marked(str(hit["text"]), hit["ranges"], width - len(head))
    say(joined([head, *parts]))


def _marked(text: str, ranges: list[list[int]], width: int) -> list[str]:
    """Return the parts of a snippet that fit into the width, around the first match, with matches in color."""
    start = 0
    if ranges and columns_of(text) > width:
        first, last = ranges[0]
        room = max((width - columns_of(text[first:last])) // 2, width - columns_of(text[first:]))
        before = fit_end(text[:first], room)
        start = first - len(before.removeprefix("…")) if before.startswith("…") else 0
    parts: list[str] = ["…"] if start else []
    room, at = width - len(parts), start
    for first, last in [*ranges, [len(text), len(text)]]:
        before, found = text[at : max(first, at)], text[max(first, at) : last]
        parts.append(fit(before, room))
        room -= columns_of(parts[-1])
        fitting = fit(found, room)
        parts.append(_found(fitting) if fitting else "")
        room -= columns_of(fitting)
        at = max(at, last)
    return parts


def _about(hit: dict[str, Any]) -> str:
    if argument := hit.get("argument"):
        return short(f"{hit.get('tool')} {argument}")
    return short(hit.get("tool") or SAID.get(hit["kind"], hit["kind"]))


def _found(text: str) -> str:
    return styled(text, "yellow") if wants_colour() else text


def _dim(text: str) -> str:
    return styled(text, "dim") if wants_colour() else text


def _bold(text: str) -> str:
    return styled(text, "cyan") if wants_colour() else text
