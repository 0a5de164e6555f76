"""The page of sessions: one table of sessions, grouped by day, with filters that live in the address.

The journal gives sessions newest first. A page looks through at most `LOOKED_AT` of them for those that the filters
let through; the counts are of what was looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.session_filter import SessionPlace, place_of
from tooltap.daemon.web.html.markup import clock
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.session_head import STATUSES, name_of, project_of, status_of

__all__ = ["PERIOD_WORDS", "Home", "HomeQuery", "home"]

SHOWN = 200
"""Most sessions in the table."""
LOOKED_AT = 5_000
PART = 1_000
MAX_WAITING = 8
DAY = 86_400_000
PERIOD_WORDS = {"": "Any time", "day": "A day", "week": "7 days", "month": "30 days"}
PERIODS = {"": None, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}
"""Name in the address -> milliseconds before the latest activity; None: all."""
Status: TypeAlias = Literal["running", "waiting", "failed", "completed", "interrupted"]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]


class HomeQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    status: tuple[Status, ...] = ()
    agent: tuple[Word, ...] = ()
    """Providers."""
    project: tuple[Word, ...] = ()
    period: Literal["", "day", "week", "month"] = ""
    before: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}-[0-9]{1,18}\Z")] | None = None
    """The place of the last session of the page before."""

    def url(self, **changes: tuple[Any, ...]) -> str:
        """Return the address with other values of these filters."""
        period = (self.period,) if self.period else ()
        values = {"status": self.status, "agent": self.agent, "project": self.project, "period": period} | changes
        pairs = [(name, one) for name, several in values.items() for one in several]
        return f"/?{urlencode(pairs)}" if pairs else "/"

    def lets_through(self, row: dict[str, Any], *, without_status: bool = False) -> bool:
        """Say whether a row is wanted, of any status if that is not asked."""
        return (
            (without_status or not self.status or status_of(row) in self.status)
            and (not self.agent or row["provider"] in self.agent)
            and (not self.project or project_of(row) in self.project)
        )


class Day(NamedTuple):
    name: str
    """`2026-11-22`, in UTC, or nothing."""
    rows: list[dict[str, Any]]


class Home(NamedTuple):
    days: list[Day]
    waiting: list[dict[str, Any]]
    """Sessions that wait for a person, whatever the filters say."""
    counts: dict[str, int]
    """Sessions by status, and `all` of them, that the other filters let through."""
    agents: list[str]
    projects: list[str]
    cost: float
    tokens: int
    older: str | None
    """The place where the next page begins, as `before` in the address."""


async def home(journal: Journal, query: HomeQuery) -> Home:
    """Look for the sessions of one page. Raises `JournalError`."""
    rows, reached = await _rows(journal, None if query.before is None else SessionPlace.of_cursor(query.before))
    latest = max((row.get("lastTs") or 0 for row in rows), default=0)
    period = PERIODS[query.period]
    recent = [row for row in rows if period is None or (row.get("lastTs") or 0) >= latest - period]
    candidates = [row for row in recent if query.lets_through(row, without_status=True)]
    wanted = [row for row in candidates if query.lets_through(row)]
    counts = Counter(map(status_of, candidates))
    shown = wanted[:SHOWN]
    return Home(
        days=_days(shown),
        waiting=[_described(row) for row in rows if status_of(row) == "waiting"][:MAX_WAITING],
        counts={"all": len(candidates), **{status: counts[status] for status in STATUSES}},
        agents=sorted({row["provider"] for row in rows}),
        projects=sorted({name for row in rows if (name := project_of(row))}),
        cost=sum(cost for row in wanted if (cost := row.get("costUsd")) is not None and cost > 0),
        tokens=sum((row.get("inputTokens") or 0) + (row.get("outputTokens") or 0) for row in wanted),
        older=place_of(shown[-1]).cursor if len(wanted) > SHOWN else reached,
    )


async def _rows(journal: Journal, before: SessionPlace | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows of the latest activity, and the place of the last one if there may be more."""
    rows: list[dict[str, Any]] = []
    while len(rows) < LOOKED_AT:
        part = await journal.sessions(limit=PART, before=before, order="time")
        rows += part
        if len(part) < PART:
            return rows, None
        before = place_of(part[-1])
    return rows, None if before is None else before.cursor


def _days(rows: list[dict[str, Any]]) -> list[Day]:
    days: list[Day] = []
    for row in rows:
        name = "" if row.get("lastTs") is None else clock(row["lastTs"], "%Y-%m-%d")
        if not days or days[-1].name != name:
            days.append(Day(name, []))
        days[-1].rows.append(_described(row))
    return days


def _described(row: dict[str, Any]) -> dict[str, Any]:
    status = status_of(row)
    tokens = [row.get("inputTokens"), row.get("outputTokens")]
    return row | {
        "name": name_of(row),
        "url": session_url(row["session"]),
        "failures": session_url(row["session"], state="failed"),
        "folder": project_of(row),
        "shown": status,
        "words": STATUSES.get(status, status),
        "tokens": None if tokens == [None, None] else sum(one or 0 for one in tokens),
        "bars": _bars(row.get("activity") or []),
    }


class Bar(NamedTuple):
    x: int
    y: float
    height: float
    family: str


HEIGHT = 16


def _bars(activity: list[dict[str, int]]) -> list[Bar]:
    """Return the bars of a sparkline, one column for each slice, its families on top of each other."""
    most = max((sum(one.values()) for one in activity), default=0)
    bars = []
    for x, families in enumerate(activity):
        y = float(HEIGHT)
        for family, calls in sorted(families.items()):
            height = max(HEIGHT * calls / most, 1.5)
            y -= height
            bars.append(Bar(3 * x, round(max(y, 0), 1), round(height, 1), family))
    return bars
