"""The table of `tooltap sessions`: a terminal gets the columns that it has room for, a pipe all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from tooltap.cli.common.printing import MAX_ID, at_terminal, joined, say, say_text, short, styled, wants_colour
from tooltap.cli.common.terminal.columns import columns_of, fit, terminal_columns
from tooltap.daemon.formats import dollars

__all__ = ["print_sessions"]

Session: TypeAlias = dict[str, Any]

SHORTEST_ID = 8
MIN_TITLE, WANTED_TITLE = 16, 32
"""Widths of the title: the least, and what it has before there are more columns."""
GAP = 2
_STYLES = {"running": "cyan", "waiting": "yellow", "failed": "red", "interrupted": "dim"}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
RECENT_DAYS = 30
"""After so many days, a date says more than their number."""


class _Column(NamedTuple):
    head: str
    most: int
    """Its greatest width on a terminal."""
    rank: int
    """Columns of rank 0 are always there; of the others, those of a lower rank first."""
    value: Callable[[Session], str]
    right: bool = False


def print_sessions(sessions: Sequence[Session]) -> None:
    if not at_terminal():
        say_text("\t".join(["SESSION", *(one.head for one in _COLUMNS)]) + "\n")
        for session in sessions:
            say_text(
                "\t".join([short(session["session"], MAX_ID), *_cells(session, _COLUMNS, _moment(session))]) + "\n"
            )
        return
    now = time.time()
    names = _short_ids([one["session"] for one in sessions])
    rows = [
        [short(name, MAX_ID), *_cells(one, _COLUMNS, _ago(one, now))] for name, one in zip(names, sessions, strict=True)
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
    """The width of each column, 0 for those that have no room or nothing to say."""
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


def _short_ids(names: Sequence[str]) -> list[str]:
    """The beginnings that commands take for the ids: as short as tells these apart."""
    length = SHORTEST_ID
    longest = max(map(len, names), default=0)
    while length < longest and len({name[:length] for name in names}) < len(set(names)):
        length += 1
    return [name[:length] for name in names]


def _cells(session: Session, columns: Sequence[_Column], last: str) -> list[str]:
    return [short(last if column.head == "LAST" else column.value(session)) for column in columns]


def _text(key: str) -> Callable[[Session], str]:
    return lambda session: str(session.get(key) or "")


def _project(session: Session) -> str:
    path = str(session.get("project") or session.get("cwd") or "").rstrip("/\\")
    return path.replace("\\", "/").rpartition("/")[2]


def _tokens(session: Session) -> str:
    tokens = (session.get("inputTokens") or 0) + (session.get("outputTokens") or 0)
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}" if tokens < 10 * size else f"{tokens // size}{unit}"
    return str(tokens or "")


def _duration(session: Session) -> str:
    if (milliseconds := session.get("durationMs")) is None:
        return ""
    seconds = milliseconds // 1_000
    if seconds < 60:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3_600
    return f"{minutes}m{seconds % 60:02}" if minutes < 60 else f"{hours}h{minutes % 60:02}"


def _ago(session: Session, now: float) -> str:
    if (last := session.get("lastTs")) is None:
        return ""
    seconds = int(now - last / 1000)
    if seconds >= RECENT_DAYS * 86_400:
        return datetime.fromtimestamp(last / 1000).strftime("%Y-%m-%d")
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return "now"


def _moment(session: Session) -> str:
    last = session.get("lastTs")
    return "" if last is None else datetime.fromtimestamp(last / 1000).strftime("%Y-%m-%d %H:%M")


_COLUMNS = (
    _Column("STATUS", 11, 0, lambda session: str(session.get("status") or session["state"])),
    _Column("TITLE", 80, 0, _text("title")),
    _Column("PROJECT", 16, 1, _project),
    _Column("BRANCH", 16, 8, _text("branch")),
    _Column("AGENT", 12, 0, _text("provider")),
    _Column("MODEL", 18, 4, _text("model")),
    _Column("CALLS", 6, 3, _text("calls"), right=True),
    _Column("ERRORS", 6, 6, _text("errors"), right=True),
    _Column("TOKENS", 6, 7, _tokens, right=True),
    _Column("COST", 8, 2, lambda session: dollars(session.get("costUsd")) or "", right=True),
    _Column("TIME", 7, 5, _duration, right=True),
    _Column("LAST", 10, 0, _moment, right=True),
)
