"""The page of a session, and the timeline of several: sections of cards, single cards, live cards, the overview.

Beside the cards are the head of the session (its title and figures, and in full what waits for a person), or the list
of sessions. Cards are rendered in a thread, because a page of them takes longer than the event loop may be held.
`static/page.js` adds live events. Overviews are read from the journal in parts, each worked on in a thread, because the
first overview of a long session takes seconds; they are remembered, and extended by new events.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import anyio
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from tooltap.daemon.did_you_mean import similar
from tooltap.daemon.export.source import MissingRange
from tooltap.daemon.journal.interface import NEWEST, CorruptError, Journal, StoredEvent
from tooltap.daemon.sessions.listing import (
    STATUSES,
    WITH_CONTENT,
    SessionPlace,
    is_live,
    name_of,
    origins_of,
    place_of,
    project_of,
    status_of,
)
from tooltap.daemon.sessions.resuming import in_shell, resume_of
from tooltap.daemon.sessions.stored import SessionEvents, check_not_lost, present_id
from tooltap.daemon.show.blocks import LEVELS, Level
from tooltap.daemon.show.minimap import KINDS, SessionHistory, drawn
from tooltap.daemon.show.skins.html import RowHtml, Rows, card_html
from tooltap.daemon.show.timeline import nest
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.web.http.feed import message
from tooltap.daemon.web.http.requests import Filtered, WebError, parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url, share_url
from tooltap.daemon.web.page.asks import Asks, waiting_sessions, waits_message
from tooltap.daemon.web.page.fragments import Fragments, LevelOf, events_at
from tooltap.daemon.web.page.live import LiveRows
from tooltap.daemon.web.page.preferences import Preferences
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, query_of, row_of, seq_of, template
from tooltap.daemon.web.page.successors import Successors
from tooltap.daemon.web.page.tabs import tabs
from tooltap.daemon.web.page.timeline import (
    CARDS,
    CARDS_BYTES,
    SEARCH_BYTES,
    STATES,
    Bounds,
    Page,
    Selection,
    State,
    around,
    between,
    newer,
    older,
    section_of,
    states_of,
)
from tooltap.protocol.events import AnyEvent, EventHead
from tooltap.protocol.filters import Filter
from tooltap.protocol.replies import Waiting

Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NEWEST)]
TextKey: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
FILTERS = ("session", "stream", "provider", "agent", "kind", "tool", "state", "text")
MAX_ALSO = 200
MAX_PARTIALS = 16


class SelectionQuery(Filtered, kw_only=True, frozen=True):
    state: tuple[State, ...] = ()
    text: Annotated[str, msgspec.Meta(max_length=1_000)] = ""

    @property
    def selection(self) -> Selection:
        """Return which events are wanted. Raises `WebError`."""
        return Selection(self.filter, self.state, self.text)

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Return the filters that are set."""
        given = {name: getattr(self, name) or () for name in FILTERS}
        return {name: (value,) if isinstance(value, str) else value for name, value in given.items() if value}

    def url(self, path: str, **more: Any) -> str:
        """Return a URL with the same filters."""
        return _url(path, self.filters | {name: (value,) for name, value in more.items()})

    def timeline(self, **more: str | int) -> str:
        """Return the URL of the timeline with the same filters."""
        return _timeline_url(self.filters, **more)

    def by_time(self) -> str:
        """Return the URL of the page that lists what happened last, with the filters that it has."""
        names = {"session": "session", "provider": "agent", "tool": "tool", "text": "text"}
        return _url("/search", {names[name]: values for name, values in self.filters.items() if name in names})

    def without(self, name: str, value: str) -> str:
        """Return the URL of the timeline without one value of a filter."""
        return _timeline_url(
            {key: tuple(one for one in values if (key, one) != (name, value)) for key, values in self.filters.items()}
        )


class PageQuery(SelectionQuery, kw_only=True, frozen=True):
    before: Seq | None = None
    after: Seq | None = None
    at: Seq | None = None
    """The page around this event."""
    event: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    """The id of that event. It stays when a journal is built again, and `at` is then only where the event was."""
    sessions: str | None = None
    """List the sessions after the part with this cursor."""

    def page_url(self) -> str:
        """Return the URL of this page."""
        places = {name: getattr(self, name) for name in ("before", "after", "at", "event", "sessions")}
        return self.timeline(**{name: value for name, value in places.items() if value is not None})


class CardsQuery(SelectionQuery, kw_only=True, frozen=True):
    before: Seq | None = None
    after: Seq | None = None
    at: Seq | None = None
    """The page around this event."""
    first: Seq | None = None
    last: Seq | None = None
    """`first` to `last`: the range of a page that the browser fetches again."""
    also: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_ALSO)] = ()
    """Later events that belong into cards of this page."""


class LiveQuery(SelectionQuery, kw_only=True, frozen=True):
    after: str | None = None
    """Cursor, as in a subscription. Default: `now`."""
    has: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=1_000)], ...], msgspec.Meta(max_length=MAX_PARTIALS)
    ] = ()
    """Keys of texts of which the reader shows partials."""


class MapQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    session: TextKey


class CardQuery(msgspec.Struct, kw_only=True, frozen=True):
    level: Literal["title", "summary", "full", "expanded", "collapsed"] = "collapsed"
    """`expanded` and `collapsed` stand for the reader's preference."""
    also: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_ALSO)] = ()
    """Events that belong into the card."""


def _url(path: str, values: dict[str, tuple[Any, ...]]) -> str:
    query = urlencode([(name, one) for name, several in values.items() for one in several])
    return f"{path}?{query}" if query else path


def _timeline_url(filters: dict[str, tuple[str, ...]], **more: str | int) -> str:
    """Return the URL of the timeline. For one session, it is that of the session's page."""
    sessions = filters.get("session", ())
    if len(sessions) == 1:
        return session_url(sessions[0], **{name: list(filters[name]) for name in filters if name != "session"}, **more)
    return _url("/events", filters | {name: (value,) for name, value in more.items()})


def routes(services: Services, fragments: Fragments, asks: Asks, successors: Successors) -> list[BaseRoute]:
    page = _Page(services, fragments, asks, successors)
    return [
        PageRoute("/sessions/{session:any}", page.session),
        Route("/map", page.map),
        PageRoute("/events", page.timeline),
        Route("/cards", page.cards),
        Route("/cards/{seq:int}", page.card),
        Route("/live", page.live),
    ]


class _Page:
    def __init__(self, services: Services, fragments: Fragments, asks: Asks, successors: Successors) -> None:
        self._services = services
        self._fragments = fragments
        self._asks = asks
        self._heads = Heads(services.journal, successors)
        self._sessions = SessionList(services)
        self._overviews = Overviews(services.journal)
        self._bounds = Bounds(CARDS, CARDS_BYTES, SEARCH_BYTES)

    async def session(self, request: Request) -> Response:
        name = request.path_params["session"]
        query = parse_query(request.scope["query_string"], PageQuery, session=[name])
        present = await present_id(self._services.journal, name)
        if present != name:
            return RedirectResponse(msgspec.structs.replace(query, session=(present,)).page_url(), 303)
        if not await self._is_known(name):
            check_not_lost(self._services.journal, name)
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
        event_id, is_gone = None, False
        if query.at is None:
            page = await self._page(query)
        else:
            place = await self._place(query.at, query.event)
            if place is not None and place.seq != query.at:
                moved = query.timeline(at=place.seq, event=place.head.id)
                return RedirectResponse(f"{moved}#e{place.seq}", 303)
            event_id, is_gone = place and place.head.id, place is None
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
        waiting = await self._asks.waiting()
        return await html(
            "page.html" if head is None else "session.html",
            waits=waiting_sessions(waiting),
            asks="" if head is None else await self._asks.html(_of_session(waiting, head.session)),
            query=query,
            page=page,
            section=section,
            event_id=event_id,
            is_gone=is_gone,
            sessions=sessions,
            head=head,
            overview=overview,
            tabs=tabs.tabs_of(head.session, head.files) if head else (),
            preferences=preferences,
            here=query.page_url(),
            by_time=query.by_time(),
            choices=_choices(self._sessions.providers),
            tools=sorted(TOOL_CARDS),
        )

    async def _place(self, at: int, event_id: str | None) -> StoredEvent | None:
        """Return the event that a link names: by its id if it has one, else by its `seq`; None if it is gone."""
        journal = self._services.journal
        try:
            event = await journal.event(at)
        except CorruptError:
            event = None
        if event_id is None or (event is not None and event.head.id == event_id):
            return event
        of_stream, after = Filter(stream=(event_id.rsplit(":", 2)[0],)), 0
        while after < journal.latest:
            events, after = await journal.read(after, of_stream)
            for one in events:
                if one.head.id == event_id:
                    return one
        return None

    async def map(self, request: Request) -> Response:
        """Return the overview of a session as HTML for the script to insert."""
        session = query_of(request, MapQuery).session
        row = await row_of(self._services.journal, session)
        if row is None:
            check_not_lost(self._services.journal, session)
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
        also = await events_at(self._services.journal, query.also)
        preferences = preferences_of(request).showing(query.text)
        return HTMLResponse(await self._section(page, also, query, preferences.level_of))

    async def card(self, request: Request) -> Response:
        """Return one card, at another level."""
        query, seq = query_of(request, CardQuery), seq_of(request)
        level_of = _level_of(query.level, preferences_of(request))
        events = await events_at(self._services.journal, [seq, *query.also])
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

        sent: dict[bytes, str] = {}

        async def beside() -> bytes:
            waiting = await self._asks.waiting()
            stated: dict[bytes, str] = {b"waits": waits_message(waiting)}
            head = None if query.session is None else await self._head(query)
            if head is not None:
                stated |= {b"head": head.html, b"asks": await self._asks.html(_of_session(waiting, head.session))}
            elif query.session is None:
                stated[b"sessions"] = (await self._sessions.part()).html
            new = [message(name, data) for name, data in stated.items() if data != sent.get(name)]
            sent.update(stated)
            return b"".join(new)

        cards = LiveRows(self._services, query.selection, self._fragments, preferences, beside, query.has)
        return cards.stream(after)

    async def _page(self, query: PageQuery | CardsQuery) -> Page:
        journal, selection = self._services.journal, query.selection
        if query.after is not None:
            return await newer(journal, selection, self._bounds, query.after)
        return await older(journal, selection, self._bounds, NEWEST if query.before is None else query.before)

    async def _is_known(self, session: str) -> bool:
        """Whether there is a session, or an event of one whose row is damaged."""
        journal = self._services.journal
        if await row_of(journal, session) is not None:
            return True
        events, _ = await journal.read_back(NEWEST, Filter(session=(session,)), limit=1)
        return bool(events)

    async def _head(self, query: SelectionQuery) -> SessionHead | None:
        """Return the head of the session if exactly one is requested."""
        if query.session is None or len(query.session) != 1:
            return None
        return await self._heads.of(query.session[0])

    async def _section(self, page: Page, also: list[StoredEvent], query: SelectionQuery, level_of: LevelOf) -> Markup:
        journal = self._services.journal
        found = await section_of(journal, self._fragments, query.selection, page, also, self._bounds, level_of)
        rows = Rows(is_quiet=not query.kind, is_open=query.selection.is_searched, at=getattr(query, "at", None))
        gaps = [MissingRange(*gap) for gap in journal.corrupt.within(page.first, page.last)]
        notes = [RowHtml(gap.last, template("gap.html", sentence=gap.sentence)) for gap in gaps]
        if (deleted := await self._deleted(page, query)) is not None:
            notes.append(RowHtml(deleted.first, template("gap.html", sentence=deleted.sentence)))

        def rendered() -> Markup:
            cards = _with_notes(rows.of(nest(found.fragments, found.states, found.parents)), notes)
            return template("section.html", cards=cards, page=page, query=query)

        return await anyio.to_thread.run_sync(rendered)

    async def _deleted(self, page: Page, query: SelectionQuery) -> MissingRange | None:
        """Return the range in which retention has deleted events, if this is the journal's oldest
        page. Of a session only if its first event is among them: it has a note of what it has lost, not others."""
        journal = self._services.journal
        first, last = 1, min(journal.last_expired, page.last)
        if page.older or last < first:
            return None
        if query.session is not None and len(query.session) == 1:
            row = await row_of(journal, query.session[0])
            if row is None or row["firstSeq"] > last:
                return None
            first = row["firstSeq"]
            if await journal.is_stored(first):  # one that is damaged has a note
                return None
        return MissingRange(first, last, is_deleted=True)


def _of_session(waiting: Sequence[Waiting], session: str) -> list[Waiting]:
    return [one for one in waiting if one.session == session]


def _with_notes(cards: list[RowHtml], notes: list[RowHtml]) -> list[Markup]:
    """Return the cards, with the notes in their places."""
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


NEAR_AMONG = 500
"""Number of latest sessions that are searched for similar ones."""
MOST_NEAR = 5


async def near_sessions(journal: Journal, wanted: str) -> list[dict[str, Any]]:
    """Return the sessions whose id or title is similar, the most similar first. Raises `JournalError`."""
    rows = await journal.sessions(limit=NEAR_AMONG, order="time", wanted=WITH_CONTENT)
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
"""Link of a bar, relative to the session's page, to be formatted with the `seq` of its event."""
CHEAP = 2_000
"""Maximum events of a session whose overview is made before its page is sent. The page of a longer one fetches it."""
PART = 1_048_576
"""Bytes of events that one read of the journal returns."""
REMEMBERED = 100_000
"""Maximum weight of the remembered overviews, in calls."""
TURN_WEIGHT = 8
"""Weight of a turn, in calls: the ratio of their memory."""


class Overview(NamedTuple):
    minimap: Markup
    outline: Markup


class _Known:
    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        """`seq` of the session's first event. If it changes, some or all of the session was deleted, and the history is
        rebuilt."""
        self.lock = anyio.Lock()
        self.history = SessionHistory()
        self.reached = 0
        """`seq` up to which the journal was read."""
        self.rendered: tuple[int, bool, Overview] | None = None

    @property
    def weight(self) -> int:
        return len(self.history.calls) + TURN_WEIGHT * len(self.history.turns)


class Overviews:
    """A cache of overviews by session, bounded by `REMEMBERED`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def is_cheap(self, session: str, events: int) -> bool:
        """Return whether the overview of a session with so many events can be made while its page waits."""
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
        latest = self._journal.latest
        reached = max(known.reached, known.first_seq - 1)
        if reached >= latest:
            return
        stored = await SessionEvents.of(self._journal, (session,))
        while reached < latest:
            events, reached = await stored.read(reached, Filter(kind=KINDS), up_to=latest, max_bytes=PART)
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


SESSIONS = 50
"""Maximum sessions in one part of the list."""


class Part(NamedTuple):
    """A part of the list."""

    html: Markup
    rows: Sequence[dict[str, Any]]


class SessionList:
    """The sessions beside the timeline, by their last activity; rendered once for all readers."""

    def __init__(self, services: Services) -> None:
        self._journal = services.journal
        self._newest: tuple[int, Part] | None = None
        """The journal's latest `seq` when the first part of the list was rendered, and that part."""

    @property
    def providers(self) -> set[str]:
        """The providers of the newest sessions."""
        return {row["provider"] for row in self._rows}

    @property
    def _rows(self) -> Sequence[dict[str, Any]]:
        return () if self._newest is None else self._newest[1].rows

    async def part(self, cursor: str | None = None) -> Part:
        """Return the newest sessions, or those after a part that had this `cursor`. Raises `JournalError`, and
        `ValueError` for an invalid cursor."""
        before = None if cursor is None else SessionPlace.of_cursor(cursor)
        latest = self._journal.latest
        if self._newest is None or self._newest[0] != latest:
            self._newest = latest, await self._render(None)
        return self._newest[1] if before is None else await self._render(before)

    async def _render(self, before: SessionPlace | None) -> Part:
        rows = [
            one | {"name": name_of(one), "url": session_url(one["session"]), "shown": _state(one)}
            for one in await self._journal.sessions(limit=SESSIONS, before=before, order="time", wanted=WITH_CONTENT)
        ]
        opened = await self._journal.open_calls()
        calls = Counter(row["session"] for row in opened["calls"])
        waiting = Counter(row["session"] for row in opened["permissions"])
        html = await anyio.to_thread.run_sync(
            lambda: template(
                "sessions.html",
                sessions=rows,
                calls=calls,
                waiting=waiting,
                older=place_of(rows[-1]).cursor if len(rows) == SESSIONS else None,
            )
        )
        return Part(html, rows)


def _state(row: dict[str, Any]) -> str:
    """Return its state; `idle` between two turns: nothing is running, and nothing was interrupted."""
    is_between = row["state"] != "ended" and row.get("turn") not in (None, "started")
    return "idle" if is_between else str(row["state"])


MOST_LINKED = 4
"""Successors of a kind that are linked in the head; the tab *Details* has all."""


class SessionHead(NamedTuple):
    title: str
    html: Markup
    """Facts of the session."""
    session: str
    first_seq: int
    events: int
    is_live: bool
    """Whether the session is running."""
    files: int | None
    """Number of files that the session has changed, if known."""
    takes_prompts: bool
    """Whether its agent may take a prompt: a publisher has a connection for it."""


MOST_HEADS = 100
"""Sessions whose heads are remembered."""


class Heads:
    """The heads of sessions: each is rendered once for all readers, and again when it says something else."""

    def __init__(self, journal: Journal, successors: Successors) -> None:
        self._journal = journal
        self._successors = successors
        self._known: OrderedDict[str, tuple[dict[str, Any], SessionHead]] = OrderedDict()
        """Session -> what its head says, and the head."""

    async def of(self, session: str) -> SessionHead | None:
        """Return the head of a session; None if the journal has no event of it. Raises `JournalError`."""
        row = await row_of(self._journal, session)
        if row is None:
            return None
        values = await self._values(session, row)
        known = self._known.get(session)
        if known is None or known[0] != values:
            html = await anyio.to_thread.run_sync(lambda: template("session_head.html", **values))
            known = self._known[session] = values, _head(session, row, html, takes_prompts=values["takes_prompts"])
        self._known.move_to_end(session)
        if len(self._known) > MOST_HEADS:
            self._known.popitem(last=False)
        return known[1]

    async def _values(self, session: str, row: dict[str, Any]) -> dict[str, Any]:
        origins = [(one, await row_of(self._journal, one.session)) for one in origins_of(row)]
        streams = await self._journal.streams_of(session)
        return {
            "title": name_of(row),
            "takes_prompts": any(one.state == "open" and one.takes_answers for one in streams),
            "successors": [
                (words, links[:MOST_LINKED], max(len(links) - MOST_LINKED, 0))
                for words, links in await self._successors.of(session)
            ],
            "all_successors": tabs.session_tab_url(session, "details"),
            "origins": [
                {
                    "words": one.words.capitalize(),
                    "name": one.session if known is None else name_of(known),
                    "url": None if known is None else session_url(one.session),
                }
                for one, known in origins
            ],
            "one": row,
            "failures": session_url(session, state="failed"),
            "status": status_of(row),
            "words": STATUSES.get(status_of(row), ""),
            "project": project_of(row),
            "share_url": share_url(session),
            "resume": None if (words := resume_of(row)) is None else in_shell(words, row.get("cwd")),
        }


def _head(session: str, row: dict[str, Any], html: Markup, *, takes_prompts: bool) -> SessionHead:
    return SessionHead(
        title=name_of(row),
        html=html,
        session=session,
        first_seq=row["firstSeq"],
        events=row["events"],
        is_live=is_live(row),
        files=row.get("files"),
        takes_prompts=takes_prompts,
    )
