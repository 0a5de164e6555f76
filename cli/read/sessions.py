"""`tooltap sessions`: lists, pins and removes sessions; and finds the one that a user names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import click

from tooltap.cli.common import completion
from tooltap.cli.common.columns import columns_of, fit, terminal_columns
from tooltap.cli.common.commands import Choice, Group, did_you_mean
from tooltap.cli.common.connection import request, socket_option, wait_option, warn_of_unread
from tooltap.cli.common.filters import (
    agent_option,
    host_option,
    json_option,
    limit_option,
    project_option,
    time_options,
)
from tooltap.cli.common.printing import (
    MAX_ID,
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
from tooltap.daemon.formats import bound, counted, dollars, is_cost_bound, spent
from tooltap.daemon.sessions.listing import folder_name, folder_of, name_of, names_of, origins_of, why_lost
from tooltap.daemon.sessions.worktrees import project_of_path

NO_EVENTS = "the journal has no events yet; `tooltap up` reads what agents store"
PAGE = 1_000
"""Sessions per request."""
STATUSES = ("running", "waiting", "failed", "completed", "interrupted", "unknown")


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
@limit_option(50, "How many sessions to list.")
@click.option("--status", multiple=True, type=Choice(STATUSES), help="Sessions with this status.")
@agent_option(help="Sessions of this agent.")
@project_option("Sessions in this directory, or in directories with this name.")
@host_option("Sessions of")
@time_options("Active at this time or later", "Begun before this time, or on this day or earlier.")
@click.option("--empty", is_flag=True, help="Also sessions in which nothing was asked, said or done.")
@json_option("Print one JSON object per line, with all fields.")
@wait_option
@socket_option
@click.pass_context
def command(
    context: click.Context,
    limit: int,
    status: tuple[str, ...],
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    since: int | None,
    until: int | None,
    empty: bool,
    as_json: bool,
    socket: Path | None,
) -> None:
    """List the sessions in the journal.

    The most recently active session comes first. A terminal shows the columns that fit; a pipe gets all columns. `↳`
    marks a session that was forked from another, continues it, or was started by it: FROM says which.
    """
    context.obj = socket
    if context.invoked_subcommand is not None:
        return
    wanted = {"status": status, "provider": agent, "host": host, "since": since, "until": until}
    filters = {key: value for key, value in wanted.items() if value not in ((), None)}
    if empty:
        filters["empty"] = True
    if project:
        filters["project"] = find_projects(socket, project)
    warn_of_unread(socket)
    sessions = list_sessions(socket, limit, **filters)
    if as_json:
        for one in sessions:
            say_object(one)
        return
    listed = list(sessions)
    if not listed:
        warn(_why_none(socket, filters))
        return
    print_sessions(listed)
    if len(listed) == limit and at_terminal() and (total := _count(socket, **filters)) > limit:
        on_stderr(f"{limit:,} of {counted(total, 'session')}; `--limit {total}` lists all")


@command.command("rm", examples=("tooltap sessions rm 101730e3-98ed-4d2b-8e93-5caa86bfc39f",))
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completion.sessions)
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


@command.command("pin", examples=("tooltap sessions pin 101730e3", "tooltap sessions pin last"))
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completion.sessions)
@socket_option
@click.pass_context
def pin(context: click.Context, sessions: tuple[str, ...], socket: Path | None) -> None:
    """Keep sessions whatever their age and the journal's size.

    A pinned session is deleted only by `tooltap sessions rm`.
    """
    for session in dict.fromkeys(sessions):
        name = find_session(socket or context.obj, session)["session"]
        request(socket or context.obj, "pin", session=name, pinned=True)
        say(f"{short(name, MAX_ID)}: pinned")


@command.command("unpin", examples=("tooltap sessions unpin 101730e3",))
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completion.sessions)
@socket_option
@click.pass_context
def unpin(context: click.Context, sessions: tuple[str, ...], socket: Path | None) -> None:
    """Let retention delete pinned sessions again."""
    for session in dict.fromkeys(sessions):
        name = find_session(socket or context.obj, session)["session"]
        request(socket or context.obj, "pin", session=name, pinned=False)
        say(f"{short(name, MAX_ID)}: not pinned")


def list_sessions(socket: Path | None, limit: int, **filters: Any) -> Iterator[dict[str, Any]]:
    """Yield the sessions, requested page by page, the most recently active first. `filters`: those of the request."""
    cursor = None
    while limit > 0:
        page = request(socket, "sessions", limit=min(limit, PAGE), order="time", cursor=cursor, **filters)
        yield from page["sessions"]
        limit -= len(page["sessions"])
        cursor = page.get("cursor")
        if cursor is None:
            return


def _count(socket: Path | None, **filters: Any) -> int:
    return sum(_facets(socket, **filters)["status"].values())


def _facets(socket: Path | None, **filters: Any) -> dict[str, dict[str, int]]:
    page = request(socket, "sessions", limit=1, facets=True, **filters)
    facets: dict[str, dict[str, int]] = page["facets"]
    return facets


def find_projects(socket: Path | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Resolve project names to directories: a path becomes absolute, and that of a worktree the one of its repository;
    a name stands for every project that is listed with it, or whose last path component it is."""
    found: list[str] = []
    known: dict[str, str] | None = None
    for name in names:
        if name in (".", "..") or os.path.isabs(name):
            found.append(project_of_path(os.path.abspath(name)))
            continue
        known = names_of(_facets(socket)["project"]) if known is None else known
        named = [one for one, label in known.items() if name in (label, folder_name(one))]
        found += named or [project_of_path(os.path.abspath(name)) if "/" in name else name]
    return tuple(dict.fromkeys(found))


def _why_none(socket: Path | None, filters: dict[str, Any]) -> str:
    total = _count(socket)
    if not total:
        opened = _count(socket, empty=True)
        nothing = f"nothing was asked, said or done in {counted(opened, 'session')}; `--empty` lists what there is"
        return nothing if opened else NO_EVENTS
    some = f"there {'is' if total == 1 else 'are'} {counted(total, 'session')}"
    return f"no session matches these filters; without them {some}"


Session: TypeAlias = dict[str, Any]

SHORTEST_ID = 8
MIN_TITLE, WANTED_TITLE = 16, 32
"""Widths of the title: the minimum, and the width it gets before optional columns are shown."""
GAP = 2
_STYLES = {"running": "cyan", "waiting": "yellow", "failed": "red", "interrupted": "dim", "unknown": "yellow"}
_AGES = ((86_400, "d"), (3_600, "h"), (60, "m"))
RECENT_DAYS = 30
"""Age in days from which the date is shown instead."""


class _Column(NamedTuple):
    head: str
    most: int
    """Maximum width on a terminal."""
    rank: int
    """Columns of rank 0 are always shown; the others, as long as there is room, by ascending rank."""
    value: Callable[[Session], str]
    right: bool = False


def print_sessions(sessions: Sequence[Session]) -> None:
    projects = names_of(map(folder_of, sessions))
    sessions = [{**one, _PROJECT_NAME: projects[folder_of(one)]} for one in sessions]
    if not at_terminal():
        say_text("\t".join(["SESSION", *(one.head for one in _COLUMNS)]) + "\n")
        for session in sessions:
            say_text(
                "\t".join([short(session["session"], MAX_ID), *_cells(session, _COLUMNS, moment_of(session))]) + "\n"
            )
        return
    sessions = [{**one, "title": _MARK + name_of(one)} if origins_of(one) else one for one in sessions]
    now = time.time()
    names = short_ids([one["session"] for one in sessions])
    rows = [
        [short(name, MAX_ID), *_cells(one, _COLUMNS, ago_of(one, now))]
        for name, one in zip(names, sessions, strict=True)
    ]
    columns = [_Column("SESSION", MAX_ID, 0, str), *_COLUMNS]
    widths = _widths(columns, rows, terminal_columns())
    heads = [column.head for column in columns]
    say(_line(columns, heads, widths, ["bold"] * len(columns)))
    for session, row in zip(sessions, rows, strict=True):
        style = _STYLES.get(session.get("status", ""), "")
        say(_line(columns, row, widths, [style if head == "STATUS" else "" for head in heads]))


def _line(columns: Sequence[_Column], cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> str:
    parts: list[str] = []
    for column, cell, width, style in zip(columns, cells, widths, styles, strict=True):
        if width:
            text = fit(cell, width)
            space = " " * (width - columns_of(text))
            shown = styled(text, style) if style and text and wants_colour() else text
            parts.append(joined([space, shown] if column.right else [shown, space]))
    return joined(parts, " " * GAP)


def _widths(columns: Sequence[_Column], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the width of each column; 0 for one that has no room or is empty."""
    cells = list(zip(*rows, strict=True))
    needed = [
        max(len(column.head), min(column.most, max(map(columns_of, of_column)))) if any(of_column) else 0
        for column, of_column in zip(columns, cells, strict=True)
    ]
    title = next(number for number, column in enumerate(columns) if column.head == "TITLE")
    wanted = max(needed[title], MIN_TITLE)
    widths = [width if column.rank == 0 else 0 for width, column in zip(needed, columns, strict=True)]
    widths[title] = min(wanted, WANTED_TITLE)
    room -= sum(width + GAP for width in widths if width)
    for number in sorted(range(len(columns)), key=lambda one: columns[one].rank):
        if columns[number].rank and needed[number] and needed[number] + GAP <= room:
            widths[number] = needed[number]
            room -= needed[number] + GAP
    widths[title] = max(MIN_TITLE, min(wanted, widths[title] + room))
    return widths


def short_ids(names: Sequence[str]) -> list[str]:
    """Shorten ids to prefixes that commands accept: of equal length, and as short as still tells them apart."""
    length = SHORTEST_ID
    longest = max(map(len, names), default=0)
    while length < longest and len({name[:length] for name in names}) < len(set(names)):
        length += 1
    return [name[:length] for name in names]


def _cells(session: Session, columns: Sequence[_Column], last: str) -> list[str]:
    return [short(last if column.head == "LAST" else column.value(session)) for column in columns]


def _text(key: str) -> Callable[[Session], str]:
    return lambda session: str(session.get(key) or "")


def _origin(session: Session) -> str:
    return ", ".join(f"{one.words} {one.session[:SHORTEST_ID]}" for one in origins_of(session))


_MARK = "↳ "
"""Before the name of a session that comes from another, on a terminal, which may have no room for the column."""
_PROJECT_NAME = "projectName"
"""Key of a session's project as the list names it."""


def _tokens(session: Session) -> str:
    tokens = (session.get("inputTokens") or 0) + (session.get("outputTokens") or 0)
    is_bound = "estimatedOutputTokens" in session
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= size:
            tokens -= tokens % (size // 10) if is_bound else 0
            shown = f"{tokens / size:.1f}{unit}" if tokens < 10 * size else f"{tokens // size}{unit}"
            return bound(is_bound) + shown
    return str(tokens or "")


def _cost(session: Session) -> str:
    is_bound = is_cost_bound(session)
    cost = dollars(session.get("costUsd"), is_bound=is_bound)
    return "" if cost is None else bound(is_bound) + cost


def ago_of(session: Session, now: float) -> str:
    """Return how long before `now`, in seconds since the epoch, a row's `lastTs` was; empty if it has none."""
    if (last := session.get("lastTs")) is None:
        return ""
    seconds = int(now - last / 1000)
    if seconds >= RECENT_DAYS * 86_400:
        return datetime.fromtimestamp(last / 1000).strftime("%Y-%m-%d")
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return "now"


def moment_of(session: Session) -> str:
    """Return the local time of a row's `lastTs`; empty if it has none."""
    last = session.get("lastTs")
    return "" if last is None else datetime.fromtimestamp(last / 1000).strftime("%Y-%m-%d %H:%M")


_COLUMNS = (
    _Column("STATUS", 11, 0, lambda session: str(session.get("status") or session["state"])),
    _Column("TITLE", 80, 0, _text("title")),
    _Column("PROJECT", 16, 1, _text(_PROJECT_NAME)),
    _Column("BRANCH", 16, 8, _text("branch")),
    _Column("AGENT", 12, 0, _text("provider")),
    _Column("MODEL", 18, 4, _text("model")),
    _Column("CALLS", 6, 3, _text("calls"), right=True),
    _Column("ERRORS", 6, 6, _text("errors"), right=True),
    _Column("TOKENS", 6, 7, _tokens, right=True),
    _Column("COST", 8, 2, _cost, right=True),
    _Column("TIME", 8, 5, lambda session: spent(session.get("durationMs")) or "", right=True),
    _Column("HOST", 16, 2, _text("host")),
    _Column("FROM", 24, 9, _origin),
    _Column("PINNED", 6, 9, lambda session: "pinned" if session.get("pinned") else ""),
    _Column("LAST", 10, 0, moment_of, right=True),
)


LAST = "last"
"""Name that stands for the most recently active session."""
LISTED = 5
"""Maximum number of candidates listed for an ambiguous name."""
MAX_ABOUT = 60
"""Code points printed about a candidate."""
EVERY = 1_000_000
"""Limit for requests of all sessions: more than a journal has."""


class UnknownSessionError(click.ClickException):
    """The journal has no session of this name."""


class AmbiguousSessionError(click.ClickException):
    """Several sessions have this name; the message lists them."""

    exit_code = 2


def find_session(socket: Path | None, wanted: str) -> dict[str, Any]:
    """Return the row of the session that `wanted` names: an id, the beginning of one, words of a title, or `last`.
    Nothing names none: a variable that is not set is no wish. Raises `UnknownSessionError` and
    `AmbiguousSessionError`."""
    if not wanted:
        raise UnknownSessionError("no session is named; list them with `tooltap sessions`")
    if wanted == LAST:
        newest = request(socket, "sessions", limit=1, order="time", empty=True)["sessions"]
        if not newest:
            _refuse(socket, wanted, [])
        last: dict[str, Any] = newest[0]
        return last
    if exact := request(socket, "sessions", limit=1, session=[wanted])["sessions"]:
        named: dict[str, Any] = exact[0]
        return named
    sessions = list(list_sessions(socket, EVERY, empty=True))
    begun = [one for one in sessions if one["session"].startswith(wanted)]
    aliased = [one for one in sessions if wanted in one.get("aliases", {})]
    words = wanted.casefold().split()
    found = aliased or begun or [one for one in sessions if words and all(word in _title(one) for word in words)]
    match found:
        case [one]:
            return one
        case []:
            _refuse(socket, wanted, sessions)
    if aliased:
        what = f"had the id {wanted!r} before"
    else:
        what = f"have an id that starts with {wanted!r}" if begun else f"have the words {wanted!r} in the title"
    listed = [f"{short(one['session'], MAX_ID)} ({_about(one)})" for one in found[:LISTED]]
    more = [f"and {len(found) - LISTED} more"] if len(found) > LISTED else []
    raise AmbiguousSessionError(f"{len(found)} sessions {what}: {', '.join([*listed, *more])}; name one of them")


def _refuse(socket: Path | None, wanted: str, sessions: list[dict[str, Any]]) -> NoReturn:
    lost = why_lost(request(socket, "stats")["journal"], wanted)
    if not sessions and not lost:
        raise UnknownSessionError("the journal has no sessions yet; `tooltap up` reads those that agents store")
    names = [LAST, *(one["session"] for one in sessions), *(one["title"] for one in sessions if one.get("title"))]
    advice = did_you_mean(wanted, names) or "; list them with `tooltap sessions`"
    why = lost or f"the journal has no session {short(wanted, MAX_ID)!r}"
    raise UnknownSessionError(f"{why}{advice}")


def _title(session: dict[str, Any]) -> str:
    return str(session.get("title") or "").casefold()


def _about(session: dict[str, Any]) -> str:
    return short(session.get("title") or session.get("cwd") or session.get("provider"), MAX_ABOUT)
