"""The page of a session, and the timeline of several: sections of cards, single cards, live cards, the overview.

Cards are rendered in a thread, because a page of them takes longer than the event loop may be held. `static/page.js`
adds live events. Overviews are read from the journal in parts, each worked on in a thread, because a first look at a
long session takes seconds; they are remembered, and extended by new events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from tooltap.daemon.did_you_mean import similar
from tooltap.daemon.journal.interface import CorruptError, Journal, StoredEvent
from tooltap.daemon.sessions.listing import SessionFilter, is_live, name_of
from tooltap.daemon.show.blocks import LEVELS, Level
from tooltap.daemon.show.history import KINDS, History
from tooltap.daemon.show.minimap import drawn
from tooltap.daemon.show.skins.html import RowHtml, Rows, card_html
from tooltap.daemon.show.timeline import nest
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.web.http.errors import WebError
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.calls import states_of
from tooltap.daemon.web.page.fragments import Fragments, LevelOf
from tooltap.daemon.web.page.live import LiveRows
from tooltap.daemon.web.page.preferences import Preferences
from tooltap.daemon.web.page.queries import CardQuery, CardsQuery, LiveQuery, MapQuery, PageQuery, SelectionQuery
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, query_of, seq_of
from tooltap.daemon.web.page.section import section_of
from tooltap.daemon.web.page.session_head import SessionHead, row_of
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
from tooltap.daemon.web.templating import template
from tooltap.protocol.events import AnyEvent
from tooltap.protocol.filters import Filter
from tooltap.protocol.heads import EventHead

NEAR_AMONG = 500
"""The latest sessions, among which it looks."""
MOST_NEAR = 5


async def near_sessions(journal: Journal, wanted: str) -> list[dict[str, Any]]:
    """Return the sessions whose id or title is like this, the likeliest first. Raises `JournalError`."""
    rows = await journal.sessions(limit=NEAR_AMONG, order="time")
    return await anyio.to_thread.run_sync(_near, rows, wanted)


def _near(rows: list[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for name in {row["session"], name_of(row)}:
            by_name.setdefault(name, []).append(row)
    found = [row for name in similar(wanted, by_name) for row in by_name[name]]
    words = wanted.casefold().split()
    titled = [row for row in rows if words and all(word in name_of(row).casefold() for word in words)]
    return list({row["session"]: row for row in [*titled, *found]}.values())[:MOST_NEAR]


LINK = "?at={0}#e{0}"
"""Where a bar leads, from the session's page, by the `seq` of its event."""
CHEAP = 2_000
"""Most events of a session whose overview is made before its page is sent. The page of a longer one asks for it."""
PART = 1_048_576
"""Bytes of events that one read of the journal returns."""
REMEMBERED = 100_000
"""Calls and turns of all sessions that are remembered."""
TURN_WEIGHT = 8
"""A turn takes as much memory as so many calls."""


class Overview(NamedTuple):
    minimap: Markup
    outline: Markup


class _Known:
    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        """Of the session. If it changes, some or all of the session was deleted, and the history is rebuilt."""
        self.lock = anyio.Lock()
        self.history = History()
        self.reached = 0
        """`seq` up to which the journal was read."""
        self.rendered: tuple[int, bool, Overview] | None = None

    @property
    def weight(self) -> int:
        return len(self.history.calls) + TURN_WEIGHT * len(self.history.turns)


class Overviews:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def is_cheap(self, session: str, events: int) -> bool:
        """Say whether the overview of a session with so many events can be made while its page waits."""
        known = self._known.get((self._journal.id, session))
        return events <= CHEAP or (known is not None and known.reached > 0)

    async def of(self, session: str, first_seq: int, *, is_live: bool) -> Overview:
        """Return the overview of a session. `first_seq`: of its first event. Raises `JournalError`."""
        known = self._remembered(session, first_seq)
        async with known.lock:
            await self._read_on(session, known)
            found = await anyio.to_thread.run_sync(_rendered, known, session, is_live)
        self._forget()
        return found

    def _remembered(self, session: str, first_seq: int) -> _Known:
        key = self._journal.id, session
        known = self._known.get(key)
        if known is None or known.first_seq != first_seq:
            known = self._known[key] = _Known(first_seq)
        self._known.move_to_end(key)
        return known

    async def _read_on(self, session: str, known: _Known) -> None:
        wanted, latest = Filter(session=(session,), kind=KINDS), self._journal.latest
        reached = max(known.reached, known.first_seq - 1)
        while reached < latest:
            events, reached = await self._journal.read(reached, wanted, up_to=latest, max_bytes=PART)
            await anyio.to_thread.run_sync(known.history.add, events)
            known.reached = reached

    def _forget(self) -> None:
        left = REMEMBERED
        for key, known in reversed(list(self._known.items())):
            left -= known.weight
            if left < 0 and not known.lock.locked():
                del self._known[key]


def _rendered(known: _Known, session: str, is_live: bool) -> Overview:
    former = known.rendered
    if former is not None and former[:2] == (known.history.seq, is_live):
        return former[2]
    shown = drawn(known.history, is_live=is_live)
    overview = Overview(
        template("minimap.html", map=shown, link=LINK),
        template("outline.html", map=shown, link=LINK),
    )
    known.rendered = known.history.seq, is_live, overview
    return overview


def routes(services: Services, fragments: Fragments) -> list[BaseRoute]:
    page = _Page(services, fragments)
    return [
        PageRoute("/sessions/{session:path}", page.session),
        Route("/map", page.map),
        PageRoute("/events", page.timeline),
        Route("/cards", page.cards),
        Route("/cards/{seq:int}", page.card),
        Route("/live", page.live),
    ]


class _Page:
    def __init__(self, services: Services, fragments: Fragments) -> None:
        self._services = services
        self._fragments = fragments
        self._sessions = SessionList(services)
        self._overviews = Overviews(services.journal)
        self._bounds = Bounds(CARDS, CARDS_BYTES, SEARCH_BYTES)

    async def session(self, request: Request) -> Response:
        name = request.path_params["session"]
        query = parse_query(request.scope["query_string"], PageQuery, session=[name])
        if not await self._is_known(name):
            near = await near_sessions(self._services.journal, name)
            values = {"session": name, "near": near, "name_of": name_of, "preferences": preferences_of(request)}
            return await html("unknown_session.html", 404, **values)
        return await self._timeline(request, query)

    async def timeline(self, request: Request) -> Response:
        query = query_of(request, PageQuery)
        if query.session is not None and len(query.session) == 1:
            return RedirectResponse(query.page_url(), 303)
        return await self._timeline(request, query)

    async def _timeline(self, request: Request, query: PageQuery) -> Response:
        if query.at is None:
            page = await self._page(query)
        else:
            page = await around(self._services.journal, query.selection, self._bounds, query.at)
        preferences = preferences_of(request)
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
        return await html(
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
        session = query_of(request, MapQuery).session
        row = await row_of(self._services.journal, session)
        if row is None:
            raise WebError(404, "not-found", "there is no such session")
        overview = await self._overviews.of(session, row["firstSeq"], is_live=is_live(row))
        return await html("overview.html", overview=overview)

    async def cards(self, request: Request) -> Response:
        """Return a page of the timeline as HTML for the script to insert."""
        query = query_of(request, CardsQuery)
        if query.at is not None:
            page = await around(self._services.journal, query.selection, self._bounds, query.at)
        elif query.first is None or query.last is None:
            page = await self._page(query)
        else:
            page = await between(self._services.journal, query.selection, self._bounds, query.first, query.last)
        also = await self._events(query.also)
        preferences = preferences_of(request).showing(query.text)
        return HTMLResponse(await self._section(page, also, query, preferences.level_of))

    async def card(self, request: Request) -> Response:
        """Return one card, at another level."""
        query, seq = query_of(request, CardQuery), seq_of(request)
        level_of = _level_of(query.level, preferences_of(request))
        events = await self._events([seq, *query.also])
        states = await states_of(self._services.journal, events, self._bounds.search_bytes)
        fragments = await self._fragments.of(events, level_of)
        cards = await anyio.to_thread.run_sync(lambda: [card_html(one) for one in nest(fragments, states.of_cards)])
        if not cards:
            raise WebError(404, "not-found", f"there is no event {seq} to show")
        return HTMLResponse(cards[0])

    async def live(self, request: Request) -> ASGIApp:
        query = query_of(request, LiveQuery)
        after = request.headers.get("last-event-id") or query.after or "now"
        preferences = preferences_of(request).showing(query.text)
        lists = self._sessions if query.session is None else None
        cards = LiveRows(self._services, query.selection, self._fragments, preferences, lists, query.has)
        return cards.stream(after)

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
