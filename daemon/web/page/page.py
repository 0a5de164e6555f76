"""The routes of the page, of all its modules, and its static files. Every state of the page has a URL."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles

from tooltap.daemon.show.markup import code_css
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.requests import WebError
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page import (
    api_docs,
    board,
    calls,
    compare,
    event,
    files,
    home,
    login,
    search,
    session,
    share,
    usage,
)
from tooltap.daemon.web.page.asks import Asks
from tooltap.daemon.web.page.asks import routes as asks_routes
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.preferences import COOKIE, PreferenceError, from_form, to_cookie
from tooltap.daemon.web.page.routing import PageRoute, compile_templates
from tooltap.daemon.web.page.successors import Successors
from tooltap.daemon.web.page.tabs import tabs

FRAGMENT_BYTES = 33_554_432
"""Bytes of rendered events held in memory."""
COOKIE_SECONDS = 365 * 24 * 3600
MIN_COMPRESSED = 1_000
"""Minimum bytes of a style sheet or a script to be compressed. Pages are never compressed: they have secrets that admit
a browser beside text of agents, and an agent could infer the one from the compressed size of both."""
_STATIC = StaticFiles(packages=[("tooltap.daemon.web", "static"), ("tooltap.daemon.show", "static")])


def routes(services: Services, logins: Logins) -> list[BaseRoute]:
    """Return the routes in the order in which they are tried."""
    fragments = Fragments(services.journal, FRAGMENT_BYTES, logins.signed_url)
    asks = Asks(services, fragments)
    successors = Successors(services.journal)
    return [
        *home.routes(services, asks),
        *asks_routes(services, asks),
        *tabs.routes(services, successors),
        *share.routes(services, logins),
        *session.routes(services, fragments, asks, successors),
        *search.routes(services),
        *calls.routes(services),
        *event.routes(services, fragments),
        *board.routes(services, asks),
        *compare.routes(services),
        *files.routes(services),
        *usage.routes(services),
        *api_docs.routes(logins),
        PageRoute("/preferences", _prefer, methods=["POST"]),
        *login.routes(logins),
        Mount("/static", GZipMiddleware(Router([Route("/code.css", _code_css), Mount("/", _STATIC)]), MIN_COMPRESSED)),
    ]


def warm_up() -> None:
    """Prepare the style sheet and the templates, so that the first reader does not wait for them."""
    code_css()
    compile_templates()


async def _code_css(_: Request) -> Response:
    return Response(code_css(), media_type="text/css")


async def _prefer(request: Request) -> Response:
    try:
        form = from_form(await request.body())
        response = RedirectResponse(form.back, 303)
        response.set_cookie(COOKIE, to_cookie(form.preferences), COOKIE_SECONDS, httponly=True, samesite="strict")
    except PreferenceError as error:
        raise WebError(400, "bad-form", str(error)) from None
    return response
