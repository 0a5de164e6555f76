"""What every page is answered with: its route, which shows errors as a page, the reader's preferences, and its HTML.

A page is a module with `routes(…)`, which takes the parts of the daemon that it needs and returns its routes.
`PageRoute` is for addresses that people open; what scripts fetch is a `Route`, whose errors are JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tooltap.daemon.web.http.errors import WebError
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.preferences import COOKIE, Preferences, from_cookie
from tooltap.daemon.web.page.timeline import NEWEST
from tooltap.daemon.web.templating import template

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


class PageRoute(Route):
    """The route of a page. A `WebError` of its endpoint becomes a page with that sentence."""

    def __init__(self, path: str, endpoint: Endpoint, *, methods: Sequence[str] | None = None) -> None:
        super().__init__(path, _with_error_page(endpoint), methods=methods)


def query_of(request: Request, kind: type[T]) -> T:
    """Parse the query of the address. Raises `WebError`."""
    return parse_query(request.scope["query_string"], kind)


def preferences_of(request: Request) -> Preferences:
    return from_cookie(request.cookies.get(COOKIE))


def seq_of(request: Request) -> int:
    """Parse the `seq` in the path. Raises `WebError`."""
    seq: int = request.path_params["seq"]
    if seq > NEWEST:
        raise WebError(404, "not-found", f"there is no event {seq}")
    return seq


async def html(name: str, status: int = 200, **values: Any) -> Response:
    """Render a template in a thread: a page takes longer than the event loop may be held."""
    text = await anyio.to_thread.run_sync(
        lambda: template(name, session_url=session_url, event_url=event_url, **values)
    )
    return HTMLResponse(text, status)


def _with_error_page(answer: Endpoint) -> Endpoint:
    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except WebError as error:
            return await html("error.html", error.status, sentence=str(error), preferences=preferences_of(request))

    return answered
