"""The endpoints for programs: sessions, search, events, outputs, statistics, as JSON, server-sent events and metrics.

They answer like the socket's requests and subscriptions; docs/reference/http.md describes them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tooltap.daemon.web.api.metrics import CONTENT_TYPE, exposition
from tooltap.daemon.web.api.outputs import open_output
from tooltap.daemon.web.api.pages import page_after, page_before
from tooltap.daemon.web.http.errors import WebError, error_response, json_response, status_of
from tooltap.daemon.web.http.query import Filtered, cursor_of, parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.http.sse import EventStream, messages
from tooltap.protocol.frames import Form, Subscribe
from tooltap.protocol.requests import (
    EventRequest,
    FilesRequest,
    OutputRequest,
    SearchRequest,
    SessionsRequest,
    StatsRequest,
    UsageRequest,
)
from tooltap.protocol.requests import Request as ClientRequest

NEWEST = 2**63 - 1

T = TypeVar("T")


class EventsQuery(Filtered, kw_only=True, frozen=True):
    after: str | None = None
    """As in a subscription. Default: `now` for server-sent events, else `start`."""
    before: str | None = None
    """A `seq`, or `now`: the page goes backwards from there."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    as_: Form = msgspec.field(default="events", name="as")
    partials: bool = False


class FilesQuery(msgspec.Struct):
    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None


class JsonOutput(OutputRequest, kw_only=True, tag="output"):
    format: Literal["json"]


class Nothing(msgspec.Struct):
    pass


def routes(services: Services) -> list[Route]:
    api = _Api(services)
    return [
        Route("/api/sessions", api.sessions),
        Route("/api/sessions/{session:path}/files", api.files),
        Route("/api/search", api.search),
        Route("/api/usage", api.usage),
        Route("/api/events", api.events),
        Route("/api/events/{seq}", api.event),
        Route("/api/outputs/{output_id:path}", api.output),
        Route("/api/stats", api.stats),
        Route("/healthz", api.health),
        Route("/metrics", api.metrics),
    ]


class _Api:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def sessions(self, request: Request) -> Response:
        return await self._ask(_query(request, SessionsRequest, id=None))

    async def files(self, request: Request) -> Response:
        query = _query(request, FilesQuery)
        return await self._ask(FilesRequest(session=request.path_params["session"], file=query.path))

    async def search(self, request: Request) -> Response:
        return await self._ask(_query(request, SearchRequest, id=None))

    async def usage(self, request: Request) -> Response:
        return await self._ask(_query(request, UsageRequest, id=None))

    async def events(self, request: Request) -> ASGIApp:
        query = _query(request, EventsQuery)
        if _wants_stream(request):
            if query.before is not None or query.limit is not None:
                raise WebError(400, "bad-query", "`before` and `limit` are for pages, not for a stream")
            after = request.headers.get("last-event-id") or query.after or "now"
            return EventStream(self._services, _subscribe(query, after, follow=True), messages)
        if query.before is None:
            frame = _subscribe(query, query.after or "start", follow=False)
            page = await page_after(self._services, frame, query.limit)
        elif query.after is not None:
            raise WebError(400, "bad-query", "a page continues from `after` or from `before`, not from both")
        else:
            before = _before(query.before)
            page = await page_before(self._services, before, query.filter, query.as_, query.limit)
        return Response(page, media_type="application/json", headers={"Vary": "Accept"})

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

    async def health(self, request: Request) -> Response:
        if not self._services.journal.statistics().get("connected", True):
            raise WebError(503, "journal", "the journal cannot be reached")
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        _query(request, Nothing)
        return Response(exposition(await self._services.statistics()), media_type=CONTENT_TYPE)

    async def _ask(self, request: ClientRequest) -> Response:
        reply = await self._services.requests.reply_to(request)
        if reply.error is not None:
            return error_response(status_of(reply.error.code), reply.error.code, reply.error.message)
        return json_response(reply.result)


def _query(request: Request, kind: type[T], **more: Any) -> T:
    return parse_query(request.scope["query_string"], kind, **more)


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
