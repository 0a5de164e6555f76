"""The endpoints of a session's tabs: each is a page of its own, and with `?fragment=1` the part that the session's page
shows beside the conversation. `static/tabs.js` asks for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from shlex import quote
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.sessions.listing import name_of
from tooltap.daemon.sessions.stored import present_id
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.routing import Endpoint, PageRoute, html, known_row_of, preferences_of, query_of
from tooltap.daemon.web.page.successors import Successors
from tooltap.daemon.web.page.tabs.details import Announced, details_values
from tooltap.daemon.web.page.tabs.digests import Digests, TurnNames, place_url
from tooltap.daemon.web.page.tabs.files import NARROW, WIDE, ChangedFiles, files_values
from tooltap.daemon.web.page.tabs.plan import TodoLists, plan_values
from tooltap.daemon.web.page.tabs.usage import Spending, costs_of, usage_values

TabName: TypeAlias = Literal["files", "usage", "plan", "details"]
TITLES: dict[TabName, str] = {"files": "Files", "usage": "Usage", "plan": "Plan", "details": "Details"}
MAX_OPEN = 50


class Tab(NamedTuple):
    name: TabName
    title: str
    url: str
    number: int | None
    """Count shown on the tab; None where there is none."""


class TabQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    fragment: Literal["", "1", "wide"] = ""
    """`1`: as it is beside the conversation; `wide`: as it is on a page of its own, without the page."""
    known: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """The version that the reader has: if it is still the latest one, the response is empty (204)."""
    open: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=4_096)], ...], msgspec.Meta(max_length=MAX_OPEN)] = ()
    """Paths of files whose diff is wanted."""


def tabs_of(session: str, files: int | None) -> list[Tab]:
    """Return the tabs of a session. `files`: number of files that it has changed, if known."""
    return [
        Tab(name, title, session_tab_url(session, name), files if name == "files" else None)
        for name, title in TITLES.items()
    ]


def session_tab_url(session: str, name: TabName) -> str:
    return f"{session_url(session)}/{name}"


def routes(services: Services, successors: Successors) -> list[BaseRoute]:
    tabs = _Tabs(services, successors)
    return [PageRoute(f"/sessions/{{session:any}}/{name}", tabs.endpoint(name)) for name in TITLES]


class _Tabs:
    def __init__(self, services: Services, successors: Successors) -> None:
        self._journal = services.journal
        self._files = Digests(services.journal, ChangedFiles)
        self._spending = Digests(services.journal, Spending)
        self._todos = Digests(services.journal, TodoLists)
        self._turns = Digests(services.journal, TurnNames)
        self._announced = Digests(services.journal, Announced)
        self._successors = successors
        self._values: dict[TabName, Callable[[dict[str, Any], TabQuery], Awaitable[dict[str, Any]]]] = {
            "files": self._files_values,
            "usage": self._usage_values,
            "plan": self._plan_values,
            "details": self._details_values,
        }

    def endpoint(self, name: TabName) -> Endpoint:
        async def answered(request: Request) -> Response:
            query = query_of(request, TabQuery)
            row = await known_row_of(self._journal, await present_id(self._journal, request.path_params["session"]))
            version = f"{row['lastSeq']}.{row['state']}.{row.get('status')}"
            if query.fragment and query.known == version:
                return Response(status_code=204)
            values = await self._values[name](row, query)
            session = str(row["session"])
            about = {
                "tab": name,
                "session": session,
                "row": row,
                "title": name_of(row),
                "tabs": tabs_of(session, values.get("count", row.get("files"))),
                "url": session_tab_url(session, name),
                "version": version,
                "wide": query.fragment != "1",
                "place_url": place_url,
                "turn_names": await self._turn_names(row, name),
                "shell": quote,
                "preferences": preferences_of(request),
            }
            page = "tab_part.html" if query.fragment else "tab.html"
            return await html(page, 200, **about, **values)

        return answered

    async def _turn_names(self, row: dict[str, Any], name: TabName) -> dict[int, str]:
        if name == "details":
            return {}
        async with self._turns.of(row) as known:
            return known.names()

    async def _files_values(self, row: dict[str, Any], query: TabQuery) -> dict[str, Any]:
        limits = NARROW if query.fragment == "1" else WIDE
        async with self._files.of(row) as known:
            values = await anyio.to_thread.run_sync(
                lambda: files_values(known, query.open, limits, open_first=not query.fragment)
            )
        in_all = row.get("linesAdded") or 0, row.get("linesRemoved") or 0
        return values | {"in_all": None if in_all == (values["added"], values["removed"]) else in_all}

    async def _usage_values(self, row: dict[str, Any], query: TabQuery) -> dict[str, Any]:
        costs = await costs_of(self._journal, str(row["session"]))
        async with self._spending.of(row) as known:
            return await anyio.to_thread.run_sync(lambda: usage_values(known, costs, row, wide=query.fragment != "1"))

    async def _plan_values(self, row: dict[str, Any], query: TabQuery) -> dict[str, Any]:
        async with self._todos.of(row) as known:
            return plan_values(known, wide=query.fragment != "1")

    async def _details_values(self, row: dict[str, Any], query: TabQuery) -> dict[str, Any]:
        streams = await self._journal.streams_of(str(row["session"]))
        successors = await self._successors.of(str(row["session"]))
        async with self._announced.of(row) as known:
            return details_values(known, row, streams) | {"successors": successors}
