"""The endpoints of home: the table of sessions, further rows of it, and what changes in it."""

from __future__ import annotations

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.home.asks import what_waits
from tooltap.daemon.web.page.home.listing import count, fetch_rows
from tooltap.daemon.web.page.home.live import LiveRows, total_words
from tooltap.daemon.web.page.home.query import PERIOD_WORDS, HomeQuery, LiveRowsQuery, RowsQuery
from tooltap.daemon.web.page.home.totals import Totals
from tooltap.daemon.web.page.moved import timeline_of
from tooltap.daemon.web.page.preferences import COOKIE, from_cookie
from tooltap.daemon.web.templating import template

__all__ = ["Home"]


class Home:
    def __init__(self, services: Services, fragments: Fragments, tools: list[str]) -> None:
        self._services = services
        self._journal = services.journal
        self._fragments = fragments
        self._totals = Totals(services.journal)
        self._tools = tools

    async def table(self, request: Request) -> Response:
        if (moved := timeline_of(request.scope["query_string"])) is not None:
            return RedirectResponse(moved, 303)
        query = parse_query(request.scope["query_string"], HomeQuery)
        latest = self._journal.latest
        counts = await count(self._journal, query)
        rows, older = await fetch_rows(self._journal, query, counts.wanted)
        asks = await what_waits(self._journal, self._fragments) if counts.waiting else ""
        values = {
            "query": query,
            "counts": counts,
            "rows": rows,
            "older": older,
            "asks": asks,
            "latest": latest,
            "total": total_words(self._totals.known(counts.wanted)),
            "periods": PERIOD_WORDS,
            "preferences": from_cookie(request.cookies.get(COOKIE)),
            "waits": counts.waiting,
            "here": query.url(),
            "tools": self._tools,
        }
        return HTMLResponse(await anyio.to_thread.run_sync(lambda: template("home.html", **values)))

    async def rows(self, request: Request) -> Response:
        """Return further rows, as HTML for the script to insert."""
        query = parse_query(request.scope["query_string"], RowsQuery)
        counts = await count(self._journal, query)
        rows, _ = await fetch_rows(self._journal, query, counts.wanted)
        return HTMLResponse(rows)

    async def live(self, request: Request) -> ASGIApp:
        query = parse_query(request.scope["query_string"], LiveRowsQuery)
        resumed = request.headers.get("last-event-id", "")
        after = int(resumed) if resumed.isascii() and resumed.isdecimal() else query.after
        return LiveRows(self._services, query, self._fragments, self._totals).stream(after)
