"""The login page, for browsers that are not logged in, and the list of logins."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tooltap.daemon.web.http.guard import LOGIN
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.page.routing import html, preferences_of


async def login_page(request: Request) -> Response:
    """Return the page whose script looks for the browser's login. It has no data, and is the same at every address."""
    return await html("login.html", preferences=preferences_of(request))


def routes(logins: Logins) -> list[BaseRoute]:
    async def listed(request: Request) -> Response:
        login = request.scope[LOGIN]
        rows = [logins.describe(one) for one in reversed(logins.alive())]
        return await html(
            "logins.html", preferences=preferences_of(request), logins=rows, own=None if login is None else login.id
        )

    async def end(request: Request) -> Response:
        form = parse_qs((await request.body()).decode(errors="replace"))
        name = form.get("id", [""])[0]
        names = [one.id for one in logins.alive()] if name == "all" else [name]
        for one in names:
            await logins.revoke(one)
        return RedirectResponse("/logins", 303)

    return [Route("/logins", listed), Route("/logins/end", end, methods=["POST"])]
