"""The endpoints of the page: the filtered timeline with its sessions, cards on demand, live cards, one event,
preferences.

Every state of the page has a URL. `static/page.js` adds live events.
Cards are rendered in a thread, because a page of them takes longer than the daemon's event loop may be blocked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlencode

import anyio
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from tooltap.daemon.journal.interface import CorruptError, StoredEvent
from tooltap.daemon.web.cards.by_tool import TOOL_CARDS
from tooltap.daemon.web.html.code_css import code_css
from tooltap.daemon.web.html.look import LEVELS, Level
from tooltap.daemon.web.html.markup import compile_templates, template
from tooltap.daemon.web.http.errors import WebError
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.passes import with_pass
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page import entrance, share_routes
from tooltap.daemon.web.page.calls import calls_of_page, parents_of, states_of
from tooltap.daemon.web.page.event_page import event_page
from tooltap.daemon.web.page.fragments import Fragments, LevelOf
from tooltap.daemon.web.page.heads import Head
from tooltap.daemon.web.page.home import PERIOD_WORDS, HomeQuery, home
from tooltap.daemon.web.page.live import LiveCards
from tooltap.daemon.web.page.nesting import html_of, nest
from tooltap.daemon.web.page.preferences import (
    COOKIE,
    PreferenceError,
    Preferences,
    from_cookie,
    from_form,
    to_cookie,
)
from tooltap.daemon.web.page.queries import CardQuery, CardsQuery, LiveQuery, PageQuery, SelectionQuery
from tooltap.daemon.web.page.session_head import SessionHead
from tooltap.daemon.web.page.session_list import SessionList
from tooltap.daemon.web.page.timeline import NEWEST, STATES, Bounds, Page, around, between, newer, older
from tooltap.protocol.events import AnyEvent

__all__ = ["routes", "warm_up"]

COOKIE_SECONDS = 365 * 24 * 3600
T = TypeVar("T")


def routes(services: Services, logins: Logins) -> list[BaseRoute]:
    page = _Page(services, logins)
    return [
        Route("/", _with_error_page(page.timeline)),
        Route("/sessions", _with_error_page(page.home)),
        Route("/events", _with_error_page(page.timeline)),
        *share_routes.routes(services, logins, _with_error_page),
        Route("/sessions/{session:path}", _with_error_page(page.session)),
        Route("/cards", page.cards),
        Route("/cards/{seq:int}", page.card),
        Route("/live", page.live),
        Route("/events/{seq:int}", _with_error_page(page.event)),
        Route("/preferences", _with_error_page(page.prefer), methods=["POST"]),
        *entrance.routes(logins),
        Route("/static/code.css", _code_css),
        Mount("/static", StaticFiles(packages=[("tooltap.daemon.web", "static")])),
    ]


def warm_up() -> None:
    """Prepare the style sheet and the templates, so that the first reader does not wait for them."""
    code_css()
    compile_templates()


async def _code_css(_: Request) -> Response:
    return Response(code_css(), media_type="text/css")


class _Page:
    def __init__(self, services: Services, logins: Logins) -> None:
        web = services.config.web
        self._services = services
        self._fragments = Fragments(
            services.journal, web.fragment_bytes, lambda url: with_pass(url, logins.lasting_pass(url))
        )
        self._sessions = SessionList(services)
        self._bounds = Bounds(web.cards, web.cards_bytes, web.search_bytes)

    async def home(self, request: Request) -> Response:
        query = _query(request, HomeQuery)
        return await _html(
            "home.html",
            query=query,
            home=await home(self._services.journal, query),
            preferences=_preferences(request),
            periods=PERIOD_WORDS,
            choices=_choices(()),
        )

    async def session(self, request: Request) -> Response:
        """Open the timeline of one session."""
        query = urlencode([("session", request.path_params["session"]), *request.query_params.multi_items()])
        return await self.timeline(Request({**request.scope, "query_string": query.encode()}))

    async def timeline(self, request: Request) -> Response:
        query = _query(request, PageQuery)
        if query.at is None:
            page = await self._page(query)
        else:
            page = await around(self._services.journal, query.selection, self._bounds, query.at)
        preferences = _preferences(request)
        try:
            sessions = await self._sessions.part(query.sessions)
        except ValueError:
            raise WebError(400, "bad-query", "`sessions` is not from a link to older sessions") from None
        section = await self._section(page, [], query, preferences.showing(query.text).level_of)
        return await _html(
            "page.html",
            query=query,
            page=page,
            section=section,
            sessions=sessions,
            head=await self._head(query),
            preferences=preferences,
            here=f"/?{request.url.query}",
            choices=_choices(self._sessions.providers),
        )

    async def cards(self, request: Request) -> Response:
        """Return a page of the timeline as HTML for the script to insert."""
        query = _query(request, CardsQuery)
        if query.first is None or query.last is None:
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
        cards = await anyio.to_thread.run_sync(lambda: [html_of(one) for one in nest(fragments, states.of_cards)])
        if not cards:
            raise WebError(404, "not-found", f"there is no event {seq} to show")
        return HTMLResponse(cards[0])

    async def live(self, request: Request) -> ASGIApp:
        query = _query(request, LiveQuery)
        after = request.headers.get("last-event-id") or query.after or "now"
        preferences = _preferences(request).showing(query.text)
        lists = self._sessions if query.session is None else None
        cards = LiveCards(self._services, query.selection, self._fragments, preferences, lists, query.has)
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
        calls = await calls_of_page(journal, query.selection, page, also, self._bounds.search_bytes)
        events = sorted({*page.events, *calls.events, *also})
        parents = await parents_of(journal, events)
        fragments = await self._fragments.of(events, level_of)
        gaps = journal.corrupt.within(page.first, page.last)

        def rendered() -> Markup:
            nested = nest(fragments, calls.states, parents)
            cards = _with_gaps([(card.fragment.seq, html_of(card)) for card in nested], gaps)
            return template("section.html", cards=cards, page=page, query=query)

        return await anyio.to_thread.run_sync(rendered)


def _with_gaps(cards: list[tuple[int, Markup]], gaps: list[tuple[int, int]]) -> list[Markup]:
    """The cards, and in the places of damaged events a note."""
    notes = [(last, template("gap.html", first=first, last=last)) for first, last in gaps]
    return (
        [html for _, html in sorted([*cards, *notes], key=lambda one: one[0])] if notes else [one for _, one in cards]
    )


def _level_of(level: str, preferences: Preferences) -> LevelOf:
    def level_of(head: Head) -> Level:
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
    return HTMLResponse(await anyio.to_thread.run_sync(lambda: template(name, **values)), status)


def _with_error_page(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint to show its errors as a page."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except WebError as error:
            preferences = _preferences(request)
            return await _html("error.html", error.status, sentence=str(error), preferences=preferences)

    return answered
