"""The endpoints of the page: the filtered timeline with its sessions, cards on demand, live cards, one event,
preferences.

Every state of the page has a URL. `static/page.js` adds live events.
Cards are rendered in a thread, because a page of them takes longer than the daemon's event loop may be blocked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
from markupsafe import Markup
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from tooltap.daemon.journal.interface import CorruptError, StoredEvent
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.show.code_css import code_css
from tooltap.daemon.show.render_options import LEVELS, Level
from tooltap.daemon.show.skins.html import RowHtml, Rows, card_html
from tooltap.daemon.show.timeline import nest
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.web.http.errors import WebError
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.passes import with_pass
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page import entrance
from tooltap.daemon.web.page import share as share_routes
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.board.endpoints import BoardEndpoints
from tooltap.daemon.web.page.calls import states_of
from tooltap.daemon.web.page.compare.endpoint import Compare
from tooltap.daemon.web.page.event_page import event_page
from tooltap.daemon.web.page.find.palette import FindQuery, find
from tooltap.daemon.web.page.find.search_page import SearchQuery, choices, search_page
from tooltap.daemon.web.page.fragments import Fragments, LevelOf
from tooltap.daemon.web.page.home.endpoints import Home
from tooltap.daemon.web.page.live import LiveRows
from tooltap.daemon.web.page.moved import to_home
from tooltap.daemon.web.page.overviews import Overviews
from tooltap.daemon.web.page.preferences import COOKIE, PreferenceError, Preferences, from_cookie, from_form, to_cookie
from tooltap.daemon.web.page.queries import CardQuery, CardsQuery, LiveQuery, MapQuery, PageQuery, SelectionQuery
from tooltap.daemon.web.page.section import section_of
from tooltap.daemon.web.page.session_head import SessionHead, is_live, name_of, row_of
from tooltap.daemon.web.page.session_list import SessionList
from tooltap.daemon.web.page.tabs import tabs
from tooltap.daemon.web.page.timeline import (
    CARDS,
    CARDS_BYTES,
    NEWEST,
    SEARCH_BYTES,
    STATES,
    Bounds,
    Page,
    around,
    between,
    newer,
    older,
)
from tooltap.daemon.web.page.unknown_session import near_sessions
from tooltap.daemon.web.templating import compile_templates, template
from tooltap.protocol.events import AnyEvent
from tooltap.protocol.filters import Filter
from tooltap.protocol.heads import EventHead

__all__ = ["routes", "warm_up"]

FRAGMENT_BYTES = 33_554_432
"""Bytes of rendered events held in memory."""
COOKIE_SECONDS = 365 * 24 * 3600
MIN_COMPRESSED = 1_000
"""Bytes of a style sheet or a script that is worth compressing. Pages are not compressed: they hold what lets a browser
in beside what agents print, so that their compressed size would tell an agent something of the one."""
_STATIC = StaticFiles(packages=[("tooltap.daemon.web", "static"), ("tooltap.daemon.show", "static")])
T = TypeVar("T")


def routes(services: Services, logins: Logins) -> list[BaseRoute]:
    fragments = Fragments(services.journal, FRAGMENT_BYTES, lambda url: with_pass(url, logins.lasting_pass(url)))
    page, board = _Page(services, fragments), BoardEndpoints(services, fragments)
    return [
        Route("/", _with_error_page(page.home.table)),
        Route("/rows", page.home.rows),
        Route("/rows/live", page.home.live),
        Route("/sessions", to_home),
        *tabs.routes(services, _with_error_page),
        *share_routes.routes(services, logins, _with_error_page),
        Route("/sessions/{session:path}", _with_error_page(page.session)),
        Route("/map", page.map),
        Route("/events", _with_error_page(page.timeline)),
        Route("/search", _with_error_page(page.search)),
        Route("/find", page.find),
        Route("/cards", page.cards),
        Route("/cards/{seq:int}", page.card),
        Route("/live", page.live),
        Route("/events/{seq:int}", _with_error_page(page.event)),
        Route("/board", _with_error_page(board.page)),
        Route("/board/live", board.live),
        Route("/compare", _with_error_page(Compare(services.journal).page)),
        Route("/preferences", _with_error_page(page.prefer), methods=["POST"]),
        *entrance.routes(logins),
        Mount("/static", GZipMiddleware(Router([Route("/code.css", _code_css), Mount("/", _STATIC)]), MIN_COMPRESSED)),
    ]


def warm_up() -> None:
    """Prepare the style sheet and the templates, so that the first reader does not wait for them."""
    code_css()
    compile_templates()


async def _code_css(_: Request) -> Response:
    return Response(code_css(), media_type="text/css")


class _Page:
    def __init__(self, services: Services, fragments: Fragments) -> None:
        self._services = services
        self._fragments = fragments
        self.home = Home(services, fragments, sorted(TOOL_CARDS))
        self._sessions = SessionList(services)
        self._overviews = Overviews(services.journal)
        self._bounds = Bounds(CARDS, CARDS_BYTES, SEARCH_BYTES)

    async def session(self, request: Request) -> Response:
        name = request.path_params["session"]
        query = parse_query(request.scope["query_string"], PageQuery, session=[name])
        if not await self._is_known(name):
            near = await near_sessions(self._services.journal, name)
            values = {"session": name, "near": near, "name_of": name_of, "preferences": _preferences(request)}
            return await _html("unknown_session.html", 404, **values)
        return await self._timeline(request, query)

    async def timeline(self, request: Request) -> Response:
        query = _query(request, PageQuery)
        if query.session is not None and len(query.session) == 1:
            return RedirectResponse(query.page_url(), 303)
        return await self._timeline(request, query)

    async def _timeline(self, request: Request, query: PageQuery) -> Response:
        if query.at is None:
            page = await self._page(query)
        else:
            page = await around(self._services.journal, query.selection, self._bounds, query.at)
        preferences = _preferences(request)
        head = await self._head(query)
        overview = None
        if head is not None and query.session and self._overviews.is_cheap(query.session[0], head.events):
            overview = await self._overviews.of(query.session[0], head.first_seq, is_live=head.is_live)
        try:
            sessions = None if head is not None else await self._sessions.part(query.sessions)
        except ValueError:
            raise WebError(400, "bad-query", "`sessions` is not from a link to older sessions") from None
        section = await self._section(page, [], query, preferences.showing(query.text).level_of)
        counts = await self._services.journal.count_sessions()
        return await _html(
            "page.html" if head is None else "session.html",
            waits=counts["status"].get("waiting", 0),
            query=query,
            page=page,
            section=section,
            sessions=sessions,
            head=head,
            overview=overview,
            tabs=tabs.tabs_of(head.session, head.files) if head else (),
            preferences=preferences,
            here=query.page_url(),
            choices=_choices(self._sessions.providers),
            tools=sorted(TOOL_CARDS),
        )

    async def map(self, request: Request) -> Response:
        """Return the overview of a session as HTML for the script to insert."""
        session = _query(request, MapQuery).session
        row = await row_of(self._services.journal, session)
        if row is None:
            raise WebError(404, "not-found", "there is no such session")
        overview = await self._overviews.of(session, row["firstSeq"], is_live=is_live(row))
        return await _html("overview.html", overview=overview)

    async def search(self, request: Request) -> Response:
        query = _query(request, SearchQuery)
        return await _html(
            "search.html",
            query=query,
            result=await search_page(self._services, query),
            choices=await choices(self._services.journal, TOOL_CARDS),
            preferences=_preferences(request),
            here=query.url(),
        )

    async def find(self, request: Request) -> Response:
        """Return what the palette shows, as HTML for the script to insert."""
        text = _query(request, FindQuery).text
        return await _html("found.html", text=text, found=await find(self._services, text))

    async def cards(self, request: Request) -> Response:
        """Return a page of the timeline as HTML for the script to insert."""
        query = _query(request, CardsQuery)
        if query.at is not None:
            page = await around(self._services.journal, query.selection, self._bounds, query.at)
        elif query.first is None or query.last is None:
            page = await self._page(query)
        else:
            page = await between(self._services.journal, query.selection, self._bounds, query.first, query.last)
        also = await self._events(query.also)
        preferences = _preferences(request).showing(query.text)
        return HTMLResponse(await self._section(page, also, query, preferences.level_of))

    async def card(self, request: Request) -> Response:
        """Return one card, at another level."""
        query, seq = _query(request, CardQuery), _seq(request)
        level_of = _level_of(query.level, _preferences(request))
        events = await self._events([seq, *query.also])
        states = await states_of(self._services.journal, events, self._bounds.search_bytes)
        fragments = await self._fragments.of(events, level_of)
        cards = await anyio.to_thread.run_sync(lambda: [card_html(one) for one in nest(fragments, states.of_cards)])
        if not cards:
            raise WebError(404, "not-found", f"there is no event {seq} to show")
        return HTMLResponse(cards[0])

    async def live(self, request: Request) -> ASGIApp:
        query = _query(request, LiveQuery)
        after = request.headers.get("last-event-id") or query.after or "now"
        preferences = _preferences(request).showing(query.text)
        lists = self._sessions if query.session is None else None
        cards = LiveRows(self._services, query.selection, self._fragments, preferences, lists, query.has)
        return cards.stream(after)

    async def event(self, request: Request) -> Response:
        seq = _seq(request)
        values = await event_page(self._services, self._fragments, seq)
        return await _html("event.html", preferences=_preferences(request), **values)

    async def prefer(self, request: Request) -> Response:
        try:
            form = from_form(await request.body())
            response = RedirectResponse(form.back, 303)
            response.set_cookie(COOKIE, to_cookie(form.preferences), COOKIE_SECONDS, httponly=True, samesite="strict")
        except PreferenceError as error:
            raise WebError(400, "bad-form", str(error)) from None
        return response

    async def _page(self, query: PageQuery | CardsQuery) -> Page:
        journal, selection = self._services.journal, query.selection
        if query.after is not None:
            return await newer(journal, selection, self._bounds, query.after)
        return await older(journal, selection, self._bounds, NEWEST if query.before is None else query.before)

    async def _is_known(self, session: str) -> bool:
        """Whether there is a session, or an event of one whose row is damaged."""
        journal = self._services.journal
        if await journal.sessions(limit=1, wanted=SessionFilter(session=(session,))):
            return True
        events, _ = await journal.read_back(NEWEST, Filter(session=(session,)), limit=1)
        return bool(events)

    async def _head(self, query: SelectionQuery) -> SessionHead | None:
        """Return the head of the session if exactly one is requested."""
        if query.session is None or len(query.session) != 1:
            return None
        return await SessionHead.of(self._services.journal, self._fragments, query.session[0])

    async def _events(self, seqs: Iterable[int]) -> list[StoredEvent]:
        found = []
        for seq in seqs:
            with suppress(CorruptError):
                found.append(await self._services.journal.event(seq))
        return [event for event in found if event is not None]

    async def _section(self, page: Page, also: list[StoredEvent], query: SelectionQuery, level_of: LevelOf) -> Markup:
        journal = self._services.journal
        found = await section_of(journal, self._fragments, query.selection, page, also, self._bounds, level_of)
        rows = Rows(is_quiet=not query.kind, is_open=query.selection.is_searched, at=getattr(query, "at", None))
        gaps = journal.corrupt.within(page.first, page.last)

        def rendered() -> Markup:
            cards = _with_gaps(rows.of(nest(found.fragments, found.states, found.parents)), gaps)
            return template("section.html", cards=cards, page=page, query=query)

        return await anyio.to_thread.run_sync(rendered)


def _with_gaps(cards: list[RowHtml], gaps: list[tuple[int, int]]) -> list[Markup]:
    """The cards, and in the places of damaged events a note."""
    notes = [RowHtml(last, template("gap.html", first=first, last=last)) for first, last in gaps]
    return (
        [html for _, html in sorted([*cards, *notes], key=lambda one: one[0])] if notes else [one for _, one in cards]
    )


def _level_of(level: str, preferences: Preferences) -> LevelOf:
    def level_of(head: EventHead) -> Level:
        if level == "expanded":
            return preferences.expanded_of(head)
        if level == "collapsed":
            usual = preferences.level_of(head)
            return "title" if usual == "full" else usual
        return next(one for one in LEVELS if one == level)

    return level_of


def _choices(providers: Iterable[str]) -> dict[str, list[str]]:
    """Return the choices in the filter form."""
    kinds = [str(kind.__struct_config__.tag) for kind in AnyEvent.__args__]
    return {"provider": sorted(providers), "kind": kinds, "tool": sorted(TOOL_CARDS), "state": list(STATES)}


def _query(request: Request, kind: type[T]) -> T:
    return parse_query(request.scope["query_string"], kind)


def _seq(request: Request) -> int:
    """Parse the `seq` in the path. Raises `WebError`."""
    seq: int = request.path_params["seq"]
    if seq > NEWEST:
        raise WebError(404, "not-found", f"there is no event {seq}")
    return seq


def _preferences(request: Request) -> Preferences:
    return from_cookie(request.cookies.get(COOKIE))


async def _html(name: str, status: int = 200, **values: Any) -> Response:
    html = await anyio.to_thread.run_sync(
        lambda: template(name, session_url=session_url, event_url=event_url, **values)
    )
    return HTMLResponse(html, status)


def _with_error_page(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint to show its errors as a page."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except WebError as error:
            preferences = _preferences(request)
            return await _html("error.html", error.status, sentence=str(error), preferences=preferences)

    return answered
