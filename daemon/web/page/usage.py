"""The page of what all sessions used: tokens and costs by day, model, project, agent, session or subagent.

The sums are those of `Journal.usage`. Each row has a bar for its cost, or for its tokens if no cost is known. Days also
have a chart, whose figures are those of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, ClassVar, NamedTuple

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.formats import quota_words
from tooltap.daemon.sessions.listing import ProjectNames
from tooltap.daemon.sessions.usage import zone_of
from tooltap.daemon.system.zone import zone_name
from tooltap.daemon.web.http.requests import WebError
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.choices import Choices, Offered
from tooltap.daemon.web.page.home import PERIOD_WORDS
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, query_of
from tooltap.daemon.web.page.tabs.tabs import session_tab_url
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.replies import Quota, UsageKey, UsageResult, UsageRow

MOST = 200
"""Rows of the table."""
BY: dict[UsageKey, str] = {
    "day": "Day",
    "model": "Model",
    "project": "Project",
    "agent": "Agent",
    "session": "Session",
    "subagent": "Subagent",
}
UNKNOWN = "not known"
MOST_DAYS = 62
"""Days of the chart, the latest ones."""
COLUMN, HEIGHT = 12, 96
"""Width of a day in the chart, and height of the chart."""


class UsageQuery(Choices, kw_only=True, frozen=True):
    PATH: ClassVar = "/usage"

    by: UsageKey = "day"
    day: Annotated[str, msgspec.Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?\Z")] = ""
    """Only this day."""
    zone: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """IANA name of the time zone of the days. Default: the daemon's."""


class ShownRow(NamedTuple):
    row: UsageRow
    name: str
    url: str | None
    """Address of what is known of the row beside its sums."""
    share: float
    """Length of the bar, from 0 to 100."""
    cached: int | None
    """How much of the input was read from the cache, in percent; None without input."""


class ShownQuota(NamedTuple):
    quota: Quota
    words: str
    used: float | None
    """Length of the bar, from 0 to 100; None if the agent does not state how much is used."""


class Bar(NamedTuple):
    """A day in the chart."""

    x: int
    height: float
    day: str
    row: UsageRow | None
    """None if nothing was used."""


class Chart(NamedTuple):
    bars: list[Bar]
    width: int
    of_cost: bool
    """Whether the heights are costs; else they are tokens."""


def routes(services: Services) -> list[BaseRoute]:
    journal = services.journal

    async def page(request: Request) -> Response:
        query = query_of(request, UsageQuery)
        offered = await Offered.of(journal, query)
        found = await journal.usage(_asked(query, offered))
        rows = await anyio.to_thread.run_sync(_shown, found.rows[:MOST], query, offered.names)
        return await html(
            "usage.html",
            query=query,
            offered=offered,
            found=found,
            rows=rows,
            hidden=len(found.rows) - len(rows),
            cached=_cached(found.total),
            quotas=[_quota(one) for one in found.quotas or ()],
            tab_url=session_tab_url,
            chart=chart_of(found) if query.by == "day" and not query.day else None,
            column=COLUMN,
            height=HEIGHT,
            by=BY,
            periods=PERIOD_WORDS,
            preferences=preferences_of(request),
            waits=offered.waiting,
            here=query.address(),
        )

    return [PageRoute("/usage", page)]


def _asked(query: UsageQuery, offered: Offered) -> UsageRequest:
    """Raises `WebError`."""
    zone = query.zone or zone_name()
    try:
        place = zone_of(zone)
    except ValueError as error:
        raise WebError(400, "bad-query", f"zone: {error}") from None
    since, until = query.since, None
    if query.day:
        try:
            begins = datetime.combine(date.fromisoformat(query.day), datetime.min.time(), place)
            since, until = (max(int(one.timestamp() * 1_000), 0) for one in (begins, begins + timedelta(days=1)))
        except (ValueError, OverflowError):
            raise WebError(400, "bad-query", f"there is no day {query.day}") from None
    return UsageRequest(
        by=query.by,
        provider=query.agent or None,
        project=offered.folders,
        host=query.host or None,
        since=since,
        until=until,
        zone=zone,
    )


def _shown(rows: Sequence[UsageRow], query: UsageQuery, names: ProjectNames) -> list[ShownRow]:
    measures = [_measure(row, of_cost=_has_costs(rows)) for row in rows]
    most = max(measures, default=0.0) or 1.0
    return [
        ShownRow(row, *_named(row, query, names), round(100 * measure / most, 1), _cached(row))
        for row, measure in zip(rows, measures, strict=True)
    ]


def _named(row: UsageRow, query: UsageQuery, names: ProjectNames) -> tuple[str, str | None]:
    """Return the name of a row, and the address to which it leads."""
    key = row.key
    if key is None:
        return "Main agents" if query.by == "subagent" else UNKNOWN, None
    if query.by == "day":
        return key, query.address(by="session", day=key, period="")
    if query.by == "agent":
        return key, query.address(by="session", agent=(key,))
    if query.by == "project":
        name = names.of({"project": key})
        return name, query.address(by="session", project=(name,))
    if query.by == "session":
        return row.title or key, session_tab_url(key, "usage")
    if query.by == "subagent":
        session, _, agent = key.rpartition("/")
        return agent, session_url(session, agent=agent)
    return key, None


def _quota(quota: Quota) -> ShownQuota:
    used = quota.used_percent
    words = quota_words(msgspec.to_builtins(quota))
    return ShownQuota(quota, words, None if used is None else round(min(max(used, 0.0), 100.0), 1))


def _cached(row: UsageRow) -> int | None:
    return round(100 * min(row.cache_read_tokens / row.input_tokens, 1)) if row.input_tokens > 0 else None


def _has_costs(rows: Sequence[UsageRow]) -> bool:
    return any(row.cost_usd for row in rows)


def _measure(row: UsageRow, *, of_cost: bool) -> float:
    return max(row.cost_usd or 0.0, 0.0) if of_cost else float(row.input_tokens + row.output_tokens)


def chart_of(found: UsageResult) -> Chart | None:
    """Return the chart of a result by day; None if there are fewer than two days."""
    rows = {date.fromisoformat(row.key): row for row in found.rows if row.key is not None}
    if len(rows) < 2:
        return None
    last = max(rows)
    days = min((last - min(rows)).days + 1, MOST_DAYS)
    of_cost = _has_costs(list(rows.values()))
    shown = [last - timedelta(days=before) for before in reversed(range(days))]
    measures = [_measure(rows[day], of_cost=of_cost) if day in rows else 0.0 for day in shown]
    most = max(measures) or 1.0
    bars = [
        Bar(at * COLUMN, round(max(HEIGHT * measure / most, 1.0 if measure else 0.0), 1), f"{day}", rows.get(day))
        for at, (day, measure) in enumerate(zip(shown, measures, strict=True))
    ]
    return Chart(bars, COLUMN * days, of_cost)
