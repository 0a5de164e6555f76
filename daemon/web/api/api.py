"""The endpoints for programs: sessions, search, events, outputs, statistics, as JSON, server-sent events and metrics.

They answer like the socket's requests and subscriptions; docs/reference/http.md describes them. Events also come as
pages of JSON: forwards from a cursor, like a subscription, or backwards from one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tooltap.daemon.journal.interface import NEWEST, Journal, JournalError
from tooltap.daemon.sessions.listing import RUNNING, SessionFilter
from tooltap.daemon.sessions.stored import SessionEvents, check_not_lost, present_id
from tooltap.daemon.show.skins.display import CallTimes, display_body
from tooltap.daemon.web.api.ag_ui import read_run, tellings
from tooltap.daemon.web.api.metrics import CONTENT_TYPE, exposition
from tooltap.daemon.web.api.outputs import open_output
from tooltap.daemon.web.http.endpoints import ENDPOINTS, AgUiQuery, EventsQuery, FilesQuery, JsonOutput, RunAgentInput
from tooltap.daemon.web.http.feed import AgUiRun, EventStream, ag_ui_heartbeat, ag_ui_messages, messages
from tooltap.daemon.web.http.guard import LOGIN
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.openapi import document
from tooltap.daemon.web.http.requests import (
    SessionRoute,
    WebError,
    cursor_of,
    error_response,
    json_response,
    parse_body,
    parse_query,
    status_of,
)
from tooltap.daemon.web.http.services import Services
from tooltap.protocol.events import PermissionRequest, decode, with_seq
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import (
    AnswerRequest,
    ChangedFilesRequest,
    EndedCallsRequest,
    ErrorFrame,
    EventRequest,
    FilesRequest,
    Form,
    Gap,
    InterruptRequest,
    Live,
    SearchRequest,
    SendRequest,
    SessionsRequest,
    StatsRequest,
    Subscribe,
    UsageRequest,
    WaitingRequest,
    decode_daemon_frame,
)
from tooltap.protocol.frames import Request as ClientRequest

T = TypeVar("T")


class Nothing(msgspec.Struct):
    pass


def routes(services: Services, logins: Logins, new_link: Callable[[], str]) -> list[Route]:
    """`new_link`: makes a link that logs a browser in."""
    api = _Api(services, logins, new_link)
    return [SessionRoute(one.path, getattr(api, one.name), methods=[one.method]) for one in ENDPOINTS]


class _Api:
    def __init__(self, services: Services, logins: Logins, new_link: Callable[[], str]) -> None:
        self._services = services
        self._logins = logins
        self._new_link = new_link

    async def sessions(self, request: Request) -> Response:
        return await self._ask(_query(request, SessionsRequest, id=None))

    async def files(self, request: Request) -> Response:
        query = _query(request, FilesQuery)
        return await self._ask(FilesRequest(session=request.path_params["session"], file=query.path))

    async def changed_files(self, request: Request) -> Response:
        return await self._ask(_query(request, ChangedFilesRequest, id=None))

    async def search(self, request: Request) -> Response:
        return await self._ask(_query(request, SearchRequest, id=None))

    async def calls(self, request: Request) -> Response:
        return await self._ask(_query(request, EndedCallsRequest, id=None))

    async def waiting(self, request: Request) -> Response:
        return await self._ask(_query(request, WaitingRequest, id=None))

    async def answer(self, request: Request) -> Response:
        return await self._tell(request, AnswerRequest)

    async def send(self, request: Request) -> Response:
        return await self._tell(request, SendRequest)

    async def interrupt(self, request: Request) -> Response:
        return await self._tell(request, InterruptRequest)

    async def usage(self, request: Request) -> Response:
        return await self._ask(_query(request, UsageRequest, id=None))

    async def events(self, request: Request) -> ASGIApp:
        query = _query(request, EventsQuery)
        if _wants_stream(request):
            if query.before is not None or query.limit is not None:
                raise WebError(400, "bad-query", "`before` and `limit` are for pages, not for a stream")
            after = request.headers.get("last-event-id") or query.after or "now"
            return EventStream(self._services.feeds, _subscribe(query, after, follow=True), messages)
        if query.before is None:
            frame = _subscribe(query, query.after or "start", follow=False)
            page = await page_after(self._services, frame, query.limit)
        elif query.after is not None:
            raise WebError(400, "bad-query", "a page continues from `after` or from `before`, not from both")
        else:
            before = _before(query.before)
            page = await page_before(self._services.journal, before, query.filter, query.as_, query.limit)
        return Response(page, media_type="application/json", headers={"Vary": "Accept"})

    async def ag_ui(self, request: Request) -> ASGIApp:
        query = _query(request, AgUiQuery)
        session = await self._known_session(request)
        after = request.headers.get("last-event-id") or query.after or "start"
        frame = _ag_ui(session, cursor_of(after), query.partials)
        return EventStream(self._services.feeds, frame, ag_ui_messages, heartbeat=ag_ui_heartbeat)

    async def ag_ui_run(self, request: Request) -> ASGIApp:
        _query(request, Nothing)
        _check_type(request)
        given = read_run(await request.body())
        session = await self._known_session(request)
        after = await self._asked_at(session, given) if given.resume else self._services.hub.latest
        for told in tellings(session, given):
            told.by = self._teller(request, told.by)
            reply = await self._services.requests.reply_to(told)
            # Another answer was first: the client gets the run that has followed it.
            if reply.error is not None and reply.error.code != "already-answered":
                return error_response(status_of(reply.error.code), reply.error.code, reply.error.message)
        run = AgUiRun()
        frame = _ag_ui(session, after, True)
        return EventStream(
            self._services.feeds, frame, run.messages, heartbeat=ag_ui_heartbeat, is_over=lambda: run.is_over
        )

    async def _asked_at(self, session: str, given: RunAgentInput) -> int:
        """Return the `seq` of the last of the questions that are answered, after which the client has seen nothing."""
        journal = self._services.journal
        answered = {one.get("interruptId") for one in given.resume}
        stored, wanted = await SessionEvents.of(journal, (session,)), Filter(kind=("permission-request",))
        found, reached = 0, journal.oldest - 1
        while reached < journal.latest:
            events, reached = await stored.read(reached, wanted)
            for one in events:
                asked = decode(one.body)
                if isinstance(asked, PermissionRequest) and asked.permission_id in answered and not asked.replay:
                    found = one.seq
        if not found:
            raise WebError(404, "not-found", "the session has asked nothing with the id of one of these interrupts")
        return found

    async def _known_session(self, request: Request) -> str:
        """Return the present id of the session in the path. Raises `WebError`."""
        session = await present_id(self._services.journal, request.path_params["session"])
        if not await self._services.journal.sessions(limit=1, wanted=SessionFilter(session=(session,))):
            check_not_lost(self._services.journal, session)
            raise WebError(404, "not-found", f"there is no session {session[:100]!r}")
        return session

    async def event(self, request: Request) -> Response:
        return await self._ask(_query(request, EventRequest, id=None, seq=request.path_params["seq"]))

    async def output(self, request: Request) -> ASGIApp:
        output_id = request.path_params["output_id"]
        if "format" in request.query_params:
            return await self._ask(_query(request, JsonOutput, id=None, outputId=output_id))
        _query(request, Nothing)
        return await open_output(self._services.requests, output_id, request)

    async def stats(self, request: Request) -> Response:
        return await self._ask(_query(request, StatsRequest, id=None))

    async def logins(self, request: Request) -> Response:
        return json_response({"logins": [self._logins.describe(one) for one in reversed(self._logins.alive())]})

    async def link(self, request: Request) -> Response:
        """Return a login link. Only a program with the token gets one, so that a browser cannot renew its own login."""
        if request.scope[LOGIN] is not None:
            raise WebError(403, "forbidden", "only a request with the token gets a link")
        return json_response({"link": self._new_link()})

    async def end_login(self, request: Request) -> Response:
        await self._logins.revoke(request.path_params["login"])
        return json_response({})

    async def description(self, request: Request) -> Response:
        _query(request, Nothing)
        return Response(await anyio.to_thread.run_sync(document), media_type="application/json")

    async def health(self, request: Request) -> Response:
        if not self._services.journal.statistics().get("connected", True):
            raise WebError(503, "journal", "the journal cannot be reached")
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        _query(request, Nothing)
        statistics = await self._services.statistics()
        try:
            counts = (await self._services.journal.count_sessions(SessionFilter(status=RUNNING)))["status"]
            going_on = {status: counts.get(status, 0) for status in RUNNING}
        except JournalError:  # its server is away: the other figures are known
            going_on = {}
        return Response(exposition(statistics, going_on), media_type=CONTENT_TYPE)

    async def _tell(self, request: Request, kind: type[AnswerRequest | SendRequest | InterruptRequest]) -> Response:
        """Tell an agent something. Who does is known of a browser; a program says it in `by`."""
        _query(request, Nothing)
        _check_type(request)
        told = parse_body(await request.body(), kind, id=None)
        told.by = self._teller(request, told.by)
        return await self._ask(told)

    def _teller(self, request: Request, by: str | None) -> str:
        login = request.scope[LOGIN]
        return f"{by or 'a program'}, over HTTP" if login is None else self._logins.words(login)

    async def _ask(self, request: ClientRequest) -> Response:
        reply = await self._services.requests.reply_to(request)
        if reply.error is not None:
            return error_response(status_of(reply.error.code), reply.error.code, reply.error.message)
        return json_response(reply.result)


def _query(request: Request, kind: type[T], **more: Any) -> T:
    return parse_query(request.scope["query_string"], kind, **more)


def _check_type(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise WebError(415, "bad-body", "the body is a JSON object, with `Content-Type: application/json`")


def _ag_ui(session: str, after: str | int, partials: bool) -> Subscribe:
    return Subscribe(after=after, filter=Filter(session=(session,)), partials=partials, as_="ag-ui")


def _wants_stream(request: Request) -> bool:
    accepted = ",".join(request.headers.getlist("accept")).lower()
    return any(one.partition(";")[0].strip() == "text/event-stream" for one in accepted.split(","))


def _subscribe(query: EventsQuery, after: str, *, follow: bool) -> Subscribe:
    return Subscribe(
        after=cursor_of(after), filter=query.filter, partials=query.partials and follow, follow=follow, as_=query.as_
    )


def _before(text: str) -> int:
    before = NEWEST if text == "now" else cursor_of(text)
    if isinstance(before, str):
        raise WebError(400, "bad-query", '`before` is a seq, or "now"')
    return min(before, NEWEST)


PAGE_EVENTS = 1_000
"""Maximum and default number of events in one response."""
PAGE_BYTES = 1_048_576
"""Maximum bytes of events in one response; the first event is included whatever its size."""


class _Page:
    """Collects the events of one response, up to its limits."""

    def __init__(self, journal: Journal, limit: int | None) -> None:
        self.lines: list[bytes] = []
        self._gap: dict[str, Any] = {}
        self._journal = journal
        self._limit = min(limit or PAGE_EVENTS, PAGE_EVENTS)
        self._room = PAGE_BYTES

    @property
    def full(self) -> bool:
        return len(self.lines) >= self._limit or self._room <= 0

    @property
    def left(self) -> int:
        return self._limit - len(self.lines)

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self._room -= len(line)

    def add_gap(self, first: int, last: int, reason: Literal["retention", "reset", "corrupt"]) -> None:
        """Report lost events. Several gaps become one, with the reason of the first."""
        known = self._gap or {"from": first, "to": last, "reason": reason}
        self._gap = {**known, "from": min(first, known["from"]), "to": max(last, known["to"])}

    def encode(self, after: int, *, more: bool) -> bytes:
        encode = msgspec.json.encode
        gap = b'"gap":%b,' % encode(self._gap) if self._gap else b""
        about = b'"next":%d,"more":%b,"journal":%b' % (after, encode(more), encode(self._journal.id))
        return b'{"events":[%b],%b%b}' % (b",".join(self.lines), gap, about)


async def page_after(services: Services, frame: Subscribe, limit: int | None) -> bytes:
    """Return the events after `frame.after`, oldest first. Raises `WebError` and `JournalError`."""
    page = _Page(services.journal, limit)
    after = 0
    async with services.feeds.open(frame) as feed:
        while not page.full:
            chunk = (await feed.take()).data
            if not chunk:
                raise WebError(503, "stopping", "the daemon is stopping")
            for line in chunk.splitlines():
                if not line.startswith(b'{"op":'):
                    page.add(line)
                    after = int(line[7 : line.index(b",")])
                    if page.full:
                        break
                    continue
                match decode_daemon_frame(line):
                    case Live(seq=seq):
                        return page.encode(seq, more=False)
                    case Gap() if page.lines:  # the next page begins with it
                        return page.encode(after, more=True)
                    case Gap() as gap:
                        page.add_gap(gap.from_, gap.to, gap.reason)
                    case ErrorFrame(code=code, message=message):
                        raise WebError(status_of(code), code, message)
    return page.encode(after, more=True)


async def page_before(journal: Journal, before: int, wanted: Filter, form: Form, limit: int | None) -> bytes:
    """Return the events before a `seq`, newest first. Raises `JournalError`."""
    page = _Page(journal, limit)
    source: Journal | SessionEvents = journal
    if wanted.session is not None:
        source = await SessionEvents.of(journal, wanted.session)
    while True:
        end = before - 1
        found, before = await source.read_back(before, wanted, limit=page.left)
        times = CallTimes()
        for stored in found if form == "display" else ():
            if stored.head.kind == "tool-call":
                times.note(stored.head.key, stored.head.ts)
        for stored in found:
            body = display_body(stored.body, times) if form == "display" else stored.body
            if body is not None:
                page.add(with_seq(stored.seq, body))
                if page.full:
                    before = stored.seq
                    break
        is_last = before <= journal.oldest
        first = 1 if is_last else before
        for lost_from, lost_to in journal.corrupt.within(first, min(end, journal.latest)):
            page.add_gap(lost_from, lost_to, "corrupt")
        # Asked after the events: what retention has just taken from them is not above it.
        if first <= (last := min(end, journal.last_expired)):
            page.add_gap(first, last, "retention")
        if page.full or is_last:
            return page.encode(before, more=not is_last)
