"""What waits for a person, on the page: each question with what is asked in full and the replies to it, who has
replied, or why it cannot be answered from here.

Two messages of the live pages come from here. Pages without live content have the second one, too: the pages of a
browser hear it by one connection together.

    asks    HTML of the questions
    waits   {waiting, asks: [{id, who, what, about, url}]}: how many sessions wait, and for what: for the title of the
            page, its icon and its notifications
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import anyio
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.listing import ProjectNames, name_of
from tooltap.daemon.show.asking import Choice, Field, asked, asked_by_call, choices_of, fields_of, what_it_wants
from tooltap.daemon.show.blocks import BRIEF, RenderContext
from tooltap.daemon.show.markup import body_html, product
from tooltap.daemon.show.skins.display import display_of
from tooltap.daemon.system.sanitize import one_line, visible
from tooltap.daemon.web.http.feed import EventStream, message
from tooltap.daemon.web.http.requests import WebError, status_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.fragments import Cache, Fragments, events_at
from tooltap.daemon.web.page.routing import query_of, template
from tooltap.daemon.web.page.timeline import of_call
from tooltap.protocol.display import DisplayNotice, DisplayPermission
from tooltap.protocol.events import ToolCall, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import WaitingRequest
from tooltap.protocol.replies import Waiting, WaitingResult

MOST = 6
"""Questions that are shown; the sessions of the others are in the table."""
MOST_CALLED = 20
"""Questions that the browser can notify of at once."""
BODY_BYTES = 1_048_576
"""Bytes of rendered questions held in memory."""


PERIOD = 1.0
"""Seconds between two updates of what waits, if there are new events."""
IDLE_PERIOD = 5.0
"""Seconds between two updates if there are none: what waits also ends by the passing of time."""


class Given(NamedTuple):
    """The latest answer to a question that the agent has not taken yet."""

    outcome: str
    by: str
    ts: int | None
    is_delivered: bool
    failure: str
    """Why it did not reach the agent; empty if it did, or still may."""


class _Asked(NamedTuple):
    body: Markup
    input: dict[str, Any]


class Ask(NamedTuple):
    """A question for the template."""

    one: Waiting
    key: str
    """Identifies the question as long as it waits."""
    wants: str
    body: Markup
    about: str
    """What it is about in one line, if there is no body."""
    choices: list[Choice]
    fields: list[Field]
    given: Given | None
    name: str
    folder: str
    url: str
    address: str

    @property
    def is_open(self) -> bool:
        """Whether an answer can be given here and now."""
        is_free = self.given is None or bool(self.given.failure)
        return self.one.answerable and self.one.permission_id is not None and is_free


class Asks:
    """Questions of all sessions, rendered for all readers."""

    def __init__(self, services: Services, fragments: Fragments) -> None:
        self._services = services
        self._journal: Journal = services.journal
        self._fragments = fragments
        self._bodies: Cache[int, _Asked] = Cache(BODY_BYTES)

    async def waiting(self) -> list[Waiting]:
        """Return what waits in all sessions, what is certain first. Raises `WebError`."""
        reply = await self._services.requests.reply_to(WaitingRequest(id=None))
        if reply.error is not None:
            raise WebError(status_of(reply.error.code), reply.error.code, reply.error.message)
        result: WaitingResult = reply.result
        return result.waiting

    async def html(self, waiting: Sequence[Waiting], names: ProjectNames | None = None) -> Markup:
        """Render questions; of more than `MOST`, the first ones. `names`: of all projects, where the questions are of
        several sessions. Raises `JournalError`."""
        shown = waiting[:MOST]
        if not shown:
            return Markup()
        given = await self._given(shown)
        asks = [self._ask(one, await self._asked(one), given.get(_key(one)), names) for one in shown]
        more = len(waiting) - len(shown)
        return await anyio.to_thread.run_sync(
            lambda: template("asks.html", asks=asks, more=more, has_session=names is not None)
        )

    def _ask(self, one: Waiting, found: _Asked, given: Given | None, names: ProjectNames | None) -> Ask:
        is_permission = one.type == "permission"
        about = one.call_title or one.preview or ""
        return Ask(
            one=one,
            key=_key(one),
            wants=what_it_wants(one),
            body=found.body,
            about=about if not found.body or one.type == "elicitation" else "",
            choices=choices_of(one.options) if is_permission and (one.options or not one.withheld) else [],
            fields=[] if is_permission else fields_of(one, found.input),
            given=given,
            name=_name(one),
            folder="" if names is None else names.of({"project": one.project, "cwd": one.cwd}),
            url=session_url(one.session),
            address=event_url(one.seq),
        )

    async def _asked(self, one: Waiting) -> _Asked:
        """Return what is asked. Raises `JournalError`."""
        if (known := self._bodies.get(one.seq)) is not None:
            return known[0]
        stored = await events_at(self._journal, [one.seq])
        about = [call for event in stored for call in await of_call(self._journal, event)]
        found = await anyio.to_thread.run_sync(self._render, stored, about)
        self._bodies.put(one.seq, found, 2 * len(found.body) + sum(2 * len(event.body) for event in stored))
        return found

    def _render(self, stored: list[StoredEvent], about: list[StoredEvent]) -> _Asked:
        if not stored:
            return _Asked(Markup(), {})
        event = decode(stored[0].body)
        if isinstance(event, ToolCall):
            return _Asked(body_html(asked_by_call(event, self._context(event))), event.input)
        request = display_of(event)
        if not isinstance(request, DisplayPermission):
            return _Asked(Markup(), {})
        payload = request.input or {}
        calls = (decode(one.body) for one in about if one.head.kind == "tool-call")
        call = None if payload else next((one for one in calls if isinstance(one, ToolCall)), None)
        return _Asked(body_html(asked(request, call, self._context(call or request))), payload)

    def _context(self, of: ToolCall | DisplayPermission) -> RenderContext:
        return RenderContext("full", self._fragments.output_url, of.outputs or {})

    async def _given(self, waiting: Iterable[Waiting]) -> dict[str, Given]:
        """Return the answers that were given to these questions, by their keys. Raises `JournalError`."""
        questions = {(one.stream, one.permission_id): one for one in waiting if one.permission_id is not None}
        if not questions:
            return {}
        sessions = tuple(dict.fromkeys(one.session for one in questions.values()))
        oldest = min(one.seq for one in questions.values())
        found: dict[str, Given] = {}
        notices, _ = await self._journal.read(oldest, Filter(session=sessions, kind=("notice",)))
        for stored in notices:
            notice = display_of(decode(stored.body))
            if not isinstance(notice, DisplayNotice) or notice.permission_id is None:
                continue
            one = questions.get((notice.stream, notice.permission_id))
            if one is None or stored.seq < one.seq:
                continue
            found[_key(one)] = _with_notice(found.get(_key(one)), notice)
        return found


def _with_notice(known: Given | None, notice: DisplayNotice) -> Given:
    if known is None or notice.code == "answer":
        known = Given(notice.outcome or "", notice.by or "", notice.ts, is_delivered=False, failure="")
    if notice.code == "answer-delivered":
        return known._replace(is_delivered=True, failure="")
    if notice.code == "answer-failed":
        return known._replace(failure=notice.reason or notice.text)
    return known


def _key(one: Waiting) -> str:
    return f"{one.stream} {one.seq} {one.permission_id or ''}"


def _name(one: Waiting) -> str:
    return name_of({"session": one.session, "title": one.title})


def ask_url(one: Waiting, at: int) -> str:
    """Return where a question can be answered, on a page that shows those of all sessions. `at`: its place among
    them."""
    return f"#ask-{one.seq}" if at < MOST else session_url(one.session)


def waiting_sessions(waiting: Iterable[Waiting]) -> int:
    """Return how many sessions certainly wait."""
    return len({one.session for one in waiting if one.certain})


def waits_message(waiting: Sequence[Waiting]) -> str:
    """Return the data of the message `waits`."""
    asks = [
        {
            "id": visible(_key(one)),
            "who": product(one.provider),
            "what": visible(what_it_wants(one)),
            "about": one_line(one.call_title or one.preview or _name(one), BRIEF),
            "url": session_url(one.session),
        }
        for one in waiting
        if one.certain
    ]
    return msgspec.json.encode({"waiting": waiting_sessions(waiting), "asks": asks[:MOST_CALLED]}).decode()


class LiveWaits:
    """What waits, for one browser: server-sent events with the message `waits`."""

    def __init__(self, services: Services, asks: Asks) -> None:
        self._services = services
        self._asks = asks
        self._seq = -1
        self._looked_at = 0.0
        self._sent = ""

    def stream(self) -> EventStream:
        """Return the response. Raises `WebError`."""
        return EventStream.of_state(self._services.feeds, self._news)

    async def _news(self) -> bytes:
        latest, now = self._services.journal.latest, anyio.current_time()
        if now - self._looked_at < (PERIOD if latest != self._seq else IDLE_PERIOD):
            return b""
        self._seq, self._looked_at = latest, now
        data = waits_message(await self._asks.waiting())
        if data == self._sent:
            return b""
        self._sent = data
        return message(b"waits", data)


class LiveWaitsQuery(msgspec.Struct, kw_only=True, frozen=True):
    after: str = "now"
    """Sent by every reader of live events, and ignored here: what waits is always that of now."""


def routes(services: Services, asks: Asks) -> list[BaseRoute]:
    async def live(request: Request) -> ASGIApp:
        query_of(request, LiveWaitsQuery)
        return LiveWaits(services, asks).stream()

    return [Route("/waiting/live", live)]
