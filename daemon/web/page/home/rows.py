"""The rows of the table of sessions, in parts that a browser empties and fetches again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.sessions.filter import SessionPlace, place_of
from tooltap.daemon.show.markup import clock
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.session_head import STATUSES, name_of, project_of, status_of
from tooltap.daemon.web.templating import template

__all__ = ["PART", "parts_of", "row_html"]

PART = 50
"""Rows of a part."""
WIDTH, HEIGHT = 3, 16
"""Of a column of the sparkline, with the gap after it; of the whole."""
LOWEST = 1.5


class Row(NamedTuple):
    one: dict[str, Any]
    """As `sessions` replies it."""
    status: str
    words: str
    name: str
    folder: str
    url: str
    failures: str
    place: str
    tokens: int | None
    paths: list[tuple[str, str]]
    """Family and path of the sparkline."""
    day: str | None = None
    """Its day, in UTC, if the row before has another; empty if it has no time."""


class Part(NamedTuple):
    rows: list[Row]
    before: str | None
    """The place of the row before."""
    more: bool
    """Whether older rows follow."""


def parts_of(rows: Sequence[dict[str, Any]], before: str | None, *, more: bool) -> Markup:
    """Render rows, newest first. `before`: the place after which they begin; `more`: whether older ones follow."""
    parts = []
    day = None if before is None else _day(SessionPlace.of_cursor(before).last_ts)
    for start in range(0, len(rows), PART):
        described = []
        for one in rows[start : start + PART]:
            own = _day(one.get("lastTs") or 0)
            described.append(_described(one)._replace(day=None if own == day else own))
            day = own
        parts.append(Part(described, before, more or start + PART < len(rows)))
        before = described[-1].place
    return template("home_rows.html", parts=parts)


def row_html(one: dict[str, Any]) -> Markup:
    return template("home_row.html", row=_described(one))


def _day(ts: int) -> str:
    return clock(ts, "%Y-%m-%d") if ts else ""


def _described(one: dict[str, Any]) -> Row:
    status = status_of(one)
    tokens = [one.get("inputTokens"), one.get("outputTokens")]
    return Row(
        one,
        status,
        STATUSES.get(status, status),
        name_of(one),
        project_of(one),
        session_url(one["session"]),
        session_url(one["session"], state="failed"),
        place_of(one).cursor,
        None if tokens == [None, None] else sum(count or 0 for count in tokens),
        _sparkline(one.get("activity") or []),
    )


def _sparkline(activity: list[dict[str, int]]) -> list[tuple[str, str]]:
    """One column for each slice, its families on top of each other: one path for each family."""
    most = max((sum(one.values()) for one in activity), default=0)
    paths: dict[str, str] = {}
    for at, families in enumerate(activity):
        y = float(HEIGHT)
        for family, calls in sorted(families.items()):
            height = max(HEIGHT * calls / most, LOWEST)
            y = max(y - height, 0)
            paths[family] = f"{paths.get(family, '')}M{WIDTH * at} {y:.3g}h2v{height:.3g}h-2z"
    return list(paths.items())
