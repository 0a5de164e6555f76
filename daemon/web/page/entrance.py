"""The entrance: the doorstep, which everybody gets who opens an address and is not in, and the list of logins."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tooltap.daemon.web.http.guard import LOGIN
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.page.preferences import COOKIE, from_cookie
from tooltap.daemon.web.templating import template

__all__ = ["doorstep", "routes"]


async def doorstep(request: Request) -> Response:
    """Return the page that looks for the browser's login. It has no data, and is the same at every address."""
    return await _html(request, "doorstep.html")


def routes(logins: Logins) -> list[Route]:
    async def listed(request: Request) -> Response:
        login = request.scope[LOGIN]
        rows = [logins.describe(one) for one in reversed(logins.alive())]
        return await _html(request, "logins.html", logins=rows, own=None if login is None else login.id)

    async def end(request: Request) -> Response:
        form = parse_qs((await request.body()).decode(errors="replace"))
        name = form.get("id", [""])[0]
        names = [one.id for one in logins.alive()] if name == "all" else [name]
        for one in names:
            await logins.revoke(one)
        return RedirectResponse("/logins", 303)

    return [Route("/logins", listed), Route("/logins/end", end, methods=["POST"])]


async def _html(request: Request, name: str, **values: Any) -> Response:
    preferences = from_cookie(request.cookies.get(COOKIE))
    return HTMLResponse(await anyio.to_thread.run_sync(lambda: template(name, preferences=preferences, **values)))
