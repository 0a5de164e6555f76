"""Home: the table of all sessions, its filters and totals, what waits for a person, and what changes in it.

The filters live in the address. Rows come in parts, which a browser empties and fetches again. The live table is a
stream of server-sent events that say what has changed, at most once a second:

    row     HTML of the row of a session that is in the table now
    gone    the name of a session that no longer matches the filters
    counts  {all, running, …, total}: the numbers on the pills
    asks    HTML of what waits for a person; `waits` has how many: see `asks.py`
    renew   too much has changed: the table must be fetched again

The `id` of a message is the `seq` up to which the reader then has all changes. The server does not know which rows a
browser holds: the script drops those that are in no part of the table that it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import anyio
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from tooltap.daemon.formats import amount, dollars, is_cost_bound, over_budget
from tooltap.daemon.journal.interface import NEWEST, Journal
from tooltap.daemon.sessions.listing import (
    RUNNING,
    STATUSES,
    ProjectNames,
    SessionFilter,
    SessionPlace,
    name_of,
    origins_of,
    place_of,
    status_of,
)
from tooltap.daemon.sessions.usage import has_budget, known_cost, zone_of
from tooltap.daemon.show.markup import clock
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.system.sanitize import visible
from tooltap.daemon.system.zone import zone_name
from tooltap.daemon.web.http.feed import EventStream, message
from tooltap.daemon.web.http.requests import WebError
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import calls_url, session_url
from tooltap.daemon.web.page.asks import Asks, waits_message
from tooltap.daemon.web.page.routing import PageRoute, html, offered_hosts, preferences_of, query_of, template
from tooltap.protocol.frames import UsageRequest

DAY = 86_400_000
PERIOD_WORDS = {"": "Any time", "day": "A day", "week": "7 days", "month": "30 days"}
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
"""Name in the address -> milliseconds since the last activity."""
Status: TypeAlias = Literal["running", "waiting", "failed", "completed", "interrupted", "unknown"]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
Words: TypeAlias = Annotated[tuple[Word, ...], msgspec.Meta(max_length=100)]
Place: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}-[0-9]{1,18}\Z")]
"""Position of a session in the table, as a cursor."""


class _Filters(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    status: Annotated[tuple[Status, ...], msgspec.Meta(max_length=100)] = ()
    agent: Words = ()
    """Providers."""
    project: Words = ()
    """Names of the projects' folders."""
    host: Words = ()
    """Names of remotes, or `THIS_MACHINE`."""
    period: Literal["", "day", "week", "month"] = ""
    empty: Literal["", "1"] = ""
    """`1`: also sessions in which nothing was asked, said or done."""

    def url(self, path: str = "/", **changes: tuple[Any, ...]) -> str:
        """Return the address with these filters, some of them changed."""
        period, empty = ((one,) if one else () for one in (self.period, self.empty))
        chosen = {"status": self.status, "agent": self.agent, "project": self.project, "host": self.host}
        values = chosen | {"period": period, "empty": empty} | changes
        pairs = [(name, one) for name, several in values.items() for one in several]
        return f"{path}?{urlencode(pairs)}" if pairs else path

    def wanted(self, folders: Iterable[str]) -> SessionFilter:
        """Return the filters as the journal's. `folders`: the folders of all projects."""
        return SessionFilter(
            status=self.status or None,
            provider=self.agent or None,
            project=ProjectNames(folders).folders(self.project) if self.project else None,
            host=self.host or None,
            since=int(time.time() * 1_000) - PERIODS[self.period] if self.period else None,
            with_empty=bool(self.empty),
        )


class HomeQuery(_Filters, kw_only=True, frozen=True):
    before: Place | None = None
    """Position of the last session of the previous page."""


class RowsQuery(HomeQuery, kw_only=True, frozen=True):
    last: Place | None = None
    """Position of the last row of a part that the browser fetches again."""


class LiveRowsQuery(_Filters, kw_only=True, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=NEWEST)] | None = None
    """The browser has all changes up to this `seq`. Default: the latest."""


class BudgetsQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    zone: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """IANA name of the reader's time zone. Default: the daemon's."""


COUNTED = 250
MOST_NAMED = 250


class Total(NamedTuple):
    cost: float
    tokens: int
    is_cost_bound: bool = False
    is_tokens_bound: bool = False
    """`is_cost_bound` and `is_tokens_bound`: it is a lower bound, as on the page of the usage."""


class Totals:
    """The total cost of the shown sessions. The figures of each session are cached, because reading those of thousands
    takes a second or more; only those that have changed are read again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows: dict[str, dict[str, Any]] = {}
        """Session -> the columns that filters read, and its figures."""
        self._seq = 0
        """`seq` of the journal up to which `_rows` is up to date."""
        self._lock = anyio.Lock()

    def known(self, wanted: SessionFilter) -> Total | None:
        """Return the total from the cache; None if the journal has newer events."""
        return self._sum(wanted) if self._seq == self._journal.latest else None

    async def of(self, wanted: SessionFilter, everything: int) -> Total:
        """Return the total of these sessions, after reading changed rows. `everything`: how many sessions there are.
        Raises `JournalError`."""
        async with self._lock:
            if sum(not row["empty"] for row in self._rows.values()) > everything:  # some were deleted
                self._rows.clear()
                self._seq = 0
            if (latest := self._journal.latest) != self._seq:
                await self._read(SessionFilter(changed_after=self._seq))
                self._seq = latest
            going_on = [name for name, row in self._rows.items() if row["status"] in RUNNING]
            if going_on:
                await self._read(SessionFilter(session=tuple(going_on[-MOST_NAMED:])))
        return await anyio.to_thread.run_sync(self._sum, wanted)

    async def _read(self, wanted: SessionFilter) -> None:
        before = None
        while True:
            part = await self._journal.sessions(limit=COUNTED, before=before, wanted=wanted)
            for row in part:
                self._rows[row["session"]] = _kept(row)
            if len(part) < COUNTED:
                return
            before = place_of(part[-1])

    def _sum(self, wanted: SessionFilter) -> Total:
        rows = [row for row in list(self._rows.values()) if wanted.matches(row)]
        cost, is_tokens_bound = sum(row["cost"] for row in rows), any(row["isTokensBound"] for row in rows)
        is_estimated = any(row["costEstimated"] for row in rows)
        summed = {"costUsd": cost, "costEstimated": is_estimated, "estimatedOutputTokens": is_tokens_bound}
        return Total(cost, sum(row["tokens"] for row in rows), is_cost_bound(summed), is_tokens_bound)


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "session": row["session"],
        "status": status_of(row),
        "provider": row["provider"],
        "project": row.get("project"),
        "host": row.get("host"),
        "lastTs": row.get("lastTs") or 0,
        "lastSeq": row["lastSeq"],
        "empty": row.get("empty", False),
        "cost": known_cost(row) or 0.0,
        "tokens": (row.get("inputTokens") or 0) + (row.get("outputTokens") or 0),
        "costEstimated": row.get("costEstimated", False),
        "isTokensBound": bool(row.get("estimatedOutputTokens")),
    }


PART = 50
"""Rows of a part."""
WIDTH, HEIGHT = 3, 16
"""Width of a column of the sparkline, with the gap after it; height of the sparkline."""
LOWEST = 1.5


class Names(NamedTuple):
    """Names that a row shows, but does not have: of its project, and of the sessions that it comes from."""

    projects: ProjectNames
    sessions: Mapping[str, str]
    """Session -> its name, of those that the rows' sessions come from, as far as they are known."""


async def names_for(journal: Journal, rows: Sequence[dict[str, Any]], projects: ProjectNames) -> Names:
    """Raises `JournalError`."""
    wanted = list({one.session: None for row in rows for one in origins_of(row)})[:MOST_NAMED]
    known = await journal.sessions(limit=len(wanted), wanted=SessionFilter(session=tuple(wanted))) if wanted else []
    return Names(projects, {one["session"]: name_of(one) for one in known})


class OriginLink(NamedTuple):
    words: str
    name: str
    url: str | None
    """None if the session is not known."""


class Row(NamedTuple):
    one: dict[str, Any]
    """Row of the session, as in a reply to `sessions`."""
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
    origins: list[OriginLink]
    day: str | None = None
    """Day of the session, in UTC; None if it is that of the row before, empty if the session has no time."""


class Part(NamedTuple):
    rows: list[Row]
    before: str | None
    """Position of the row before the part; None at the beginning of the table."""
    more: bool
    """Whether older rows follow."""


def parts_of(rows: Sequence[dict[str, Any]], before: str | None, names: Names, *, more: bool) -> Markup:
    """Render rows, newest first. `before`: position of the row before them; `more`: whether older ones follow."""
    parts = []
    day = None if before is None else _day(SessionPlace.of_cursor(before).last_ts)
    for start in range(0, len(rows), PART):
        described = []
        for one in rows[start : start + PART]:
            own = _day(one.get("lastTs") or 0)
            described.append(_described(one, names)._replace(day=None if own == day else own))
            day = own
        parts.append(Part(described, before, more or start + PART < len(rows)))
        before = described[-1].place
    return template("home_rows.html", parts=parts)


def row_html(one: dict[str, Any], names: Names) -> Markup:
    return template("home_row.html", row=_described(one, names))


def _day(ts: int) -> str:
    return clock(ts, "%Y-%m-%d") if ts else ""


def _described(one: dict[str, Any], names: Names) -> Row:
    status = status_of(one)
    tokens = [one.get("inputTokens"), one.get("outputTokens")]
    return Row(
        one,
        status,
        STATUSES.get(status, status),
        name_of(one),
        names.projects.of(one),
        session_url(one["session"]),
        session_url(one["session"], state="failed"),
        place_of(one).cursor,
        None if tokens == [None, None] else sum(count or 0 for count in tokens),
        _sparkline(one.get("activity") or []),
        [
            OriginLink(words, names.sessions.get(name, name), session_url(name) if name in names.sessions else None)
            for words, name in origins_of(one)
        ],
    )


def _sparkline(activity: list[dict[str, int]]) -> list[tuple[str, str]]:
    """Return the SVG path of each family: the chart has a column for each slice, with its families stacked."""
    most = max((sum(one.values()) for one in activity), default=0)
    paths: dict[str, str] = {}
    for at, families in enumerate(activity):
        y = float(HEIGHT)
        for family, calls in sorted(families.items()):
            height = max(HEIGHT * calls / most, LOWEST)
            y = max(y - height, 0)
            paths[family] = f"{paths.get(family, '')}M{WIDTH * at} {y:.3g}h2v{height:.3g}h-2z"
    return list(paths.items())


AT_ONCE = 2 * PART
"""Maximum rows of a page."""
REFILLED = 4 * PART
"""Maximum rows of a part that is fetched again: it may have grown."""
CHOICES = 60
"""Maximum number of projects to choose from: those with the most sessions."""


class Counts(NamedTuple):
    wanted: SessionFilter
    by_status: dict[str, int]
    """Status -> number of sessions that pass the other filters, and `all` of them."""
    waiting: int
    """Number of sessions that wait for a person, without any filter."""
    everything: int
    """Number of all sessions."""
    agents: list[str]
    projects: list[str]
    names: ProjectNames

    @property
    def shown(self) -> int:
        """Return the number of sessions that pass all filters."""
        statuses = self.wanted.status
        return self.by_status["all"] if statuses is None else sum(self.by_status[one] for one in set(statuses))


async def count(journal: Journal, query: HomeQuery | Any) -> Counts:
    """Count sessions by the journal's index: no row is decoded. Raises `JournalError`."""
    all_listed = SessionFilter(with_empty=bool(query.empty))
    every = await journal.count_sessions(all_listed)
    wanted = query.wanted(every["project"])
    others = wanted._replace(status=None)
    found = every if others == all_listed else await journal.count_sessions(others)
    names = ProjectNames(every["project"])
    by_status = {status: found["status"].get(status, 0) for status in STATUSES}
    return Counts(
        wanted,
        {"all": sum(by_status.values()), **by_status},
        every["status"].get("waiting", 0),
        sum(every["status"].values()),
        sorted({*every["provider"], *query.agent}),
        sorted({*list(names.of_folder.values())[:CHOICES], *query.project} - {""}),
        names,
    )


async def fetch_rows(journal: Journal, query: HomeQuery, counts: Counts) -> tuple[Markup, str | None]:
    """Return the rows as HTML, and the place of the last one if older ones follow. Raises `JournalError`."""
    before = None if query.before is None else SessionPlace.of_cursor(query.before)
    last = SessionPlace.of_cursor(query.last) if isinstance(query, RowsQuery) and query.last is not None else None
    most = AT_ONCE if last is None else REFILLED
    rows = await journal.sessions(limit=most + 1, before=before, order="time", wanted=counts.wanted)
    more = len(rows) > most
    rows = rows[:most]
    if last is not None:
        inside = [one for one in rows if _place(one).key("time") >= last.key("time")]
        rows, more = inside, more or len(inside) < len(rows)
    names = await names_for(journal, rows, counts.names)
    html = await anyio.to_thread.run_sync(lambda: parts_of(rows, query.before, names, more=more))
    return html, _place(rows[-1]).cursor if more and rows else None


def _place(row: dict[str, Any]) -> SessionPlace:
    return SessionPlace(row["lastSeq"], row.get("lastTs") or 0)


PERIOD = 1.0
"""Seconds between two updates, if there are new events."""
IDLE_PERIOD = 5.0
"""Seconds between two updates if there are none: an agent that ends changes the status of its session."""
MOST_ROWS = 40
"""Maximum changed rows that are sent one by one; with more, the table is fetched again."""
MOST_GOING_ON = 250
REMEMBERED = 1_000


class LiveRows:
    """The live table of one reader."""

    def __init__(self, services: Services, query: LiveRowsQuery, asks: Asks, totals: Totals) -> None:
        self._services = services
        self._journal = services.journal
        self._query = query
        self._asks = asks
        self._totals = totals
        self._seq = -1
        self._looked_at = 0.0
        self._going_on: set[str] = set()
        self._rows: dict[str, str] = {}
        """Session -> HTML of the row that was sent last; empty if the filters exclude it."""
        self._sent: dict[str, str] = {}
        """Name of a message -> its data that was sent last, of those that state what is."""

    def stream(self, after: int | None) -> EventStream:
        """Return the response. `after`: the `seq` up to which the reader has all changes. Raises `WebError`."""
        self._seq = self._journal.latest if after is None else after
        return EventStream.of_state(self._services.feeds, self._changes)

    async def _changes(self) -> bytes:
        latest, now = self._journal.latest, anyio.current_time()
        if now - self._looked_at < (PERIOD if latest != self._seq else IDLE_PERIOD):
            return b""
        self._looked_at = now
        counts = await count(self._journal, self._query)
        rows, is_renewed = await self._changed(latest)
        found = [("renew", "")]
        if not is_renewed:
            names = await names_for(self._journal, rows, counts.names)
            found = await anyio.to_thread.run_sync(self._row_messages, rows, counts.wanted, names)
        self._seq = latest
        total = await self._totals.of(counts.wanted, counts.everything)
        waiting = await self._asks.waiting() if self._going_on else []
        stated = {
            "counts": _counts(counts, total),
            "asks": str(await self._asks.html(waiting, counts.names)),
            "waits": waits_message(waiting),
        }
        found += [(name, data) for name, data in stated.items() if data != self._sent.get(name)]
        self._sent = stated
        return b"".join(message(name.encode(), data, latest) for name, data in found)

    async def _changed(self, latest: int) -> tuple[list[dict[str, Any]], bool]:
        """Return the changed rows, latest event first, and whether the table must be fetched again: too many rows have
        changed, or the journal was replaced."""
        if self._seq > latest:
            return [], True
        changed: list[dict[str, Any]] = []
        if self._seq < latest:
            wanted = SessionFilter(changed_after=self._seq)
            changed = await self._journal.sessions(limit=MOST_ROWS + 1, wanted=wanted)
        going_on = await self._journal.sessions(limit=MOST_GOING_ON, order="time", wanted=SessionFilter(status=RUNNING))
        names = {one["session"] for one in going_on}
        ended = self._going_on - names - {one["session"] for one in changed}
        if ended:
            wanted = SessionFilter(session=tuple(sorted(ended)))
            changed += await self._journal.sessions(limit=len(ended), wanted=wanted)
        self._going_on = names
        return changed, len(changed) > MOST_ROWS

    def _row_messages(self, rows: list[dict[str, Any]], wanted: SessionFilter, names: Names) -> list[tuple[str, str]]:
        """Return the messages, the row with the latest event last, so that each is put at its place."""
        found = []
        for row in reversed(rows):
            name = row["session"]
            html = str(row_html(row, names)) if wanted.matches(row) else ""
            if self._rows.pop(name, None) != html:
                found.append(("row", html) if html else ("gone", visible(name)))
            self._rows[name] = html
        for name in list(self._rows)[:-REMEMBERED]:
            del self._rows[name]
        return found


def total_words(total: Total | None) -> str:
    """Format a total as `$3.20 · 1.8 M tokens`; empty if it is not known yet."""
    if total is None:
        return ""
    cost = dollars(total.cost, is_bound=total.is_cost_bound) if total.cost else None
    tokens = f"{amount(total.tokens, is_bound=total.is_tokens_bound)} tokens"
    figures = [(cost, total.is_cost_bound), (tokens, total.is_tokens_bound)]
    return " · ".join(f"{'≥ ' if is_bound else ''}{figure}" for figure, is_bound in figures if figure)


def _counts(counts: Counts, total: Total) -> str:
    values = {**counts.by_status, "shown": counts.shown, "total": total_words(total)}
    return msgspec.json.encode(values).decode()


def routes(services: Services, asks: Asks) -> list[BaseRoute]:
    home = _Home(services, asks)
    return [
        PageRoute("/", home.table),
        Route("/rows", home.rows),
        Route("/rows/live", home.live),
        Route("/budgets", home.budgets),
    ]


class _Home:
    def __init__(self, services: Services, asks: Asks) -> None:
        self._services = services
        self._journal = services.journal
        self._asks = asks
        self._totals = Totals(services.journal)

    async def table(self, request: Request) -> Response:
        query = query_of(request, HomeQuery)
        latest = self._journal.latest
        counts = await count(self._journal, query)
        rows, older = await fetch_rows(self._journal, query, counts)
        waiting = await self._asks.waiting()
        return await html(
            "home.html",
            query=query,
            hosts=await offered_hosts(self._journal, query.host),
            counts=counts,
            rows=rows,
            older=older,
            asks=await self._asks.html(waiting, counts.names),
            latest=latest,
            total=total_words(self._totals.known(counts.wanted)),
            has_budget=has_budget(),
            failed_calls=calls_url(
                outcome="failed", agent=query.agent, project=query.project, host=query.host, period=query.period
            ),
            periods=PERIOD_WORDS,
            preferences=preferences_of(request),
            waits=counts.waiting,
            here=query.url(),
            tools=sorted(TOOL_CARDS),
        )

    async def rows(self, request: Request) -> Response:
        """Return further rows, as HTML for the script to insert."""
        query = query_of(request, RowsQuery)
        counts = await count(self._journal, query)
        rows, _ = await fetch_rows(self._journal, query, counts)
        return HTMLResponse(rows)

    async def budgets(self, request: Request) -> Response:
        """Return warnings of budgets that are exceeded in the reader's day and month, as HTML for the script to
        insert."""
        zone = query_of(request, BudgetsQuery).zone or zone_name()
        try:
            zone_of(zone)
        except ValueError as error:
            raise WebError(400, "bad-query", f"zone: {error}") from None
        budgets = (await self._journal.usage(UsageRequest(id=None, zone=zone))).budgets or []
        warnings = [words for one in budgets if (words := over_budget(one.period, one.spent_usd, one.limit_usd))]
        return await html("home_budgets.html", warnings=warnings)

    async def live(self, request: Request) -> ASGIApp:
        query = query_of(request, LiveRowsQuery)
        resumed = request.headers.get("last-event-id", "")
        after = int(resumed) if resumed.isascii() and resumed.isdecimal() else query.after
        return LiveRows(self._services, query, self._asks, self._totals).stream(after)
