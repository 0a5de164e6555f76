"""The endpoints for logins of browsers: a new link, a list, and their end. Only a program, with the token, gets a
link: a browser that is logged in cannot make its login last."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tooltap.daemon.web.http.errors import WebError, json_response
from tooltap.daemon.web.http.guard import LOGIN
from tooltap.daemon.web.http.logins import Logins


def routes(logins: Logins, new_link: Callable[[], str]) -> list[Route]:
    """`new_link` makes a link."""

    async def link(request: Request) -> Response:
        if request.scope[LOGIN] is not None:
            raise WebError(403, "forbidden", "only a request with the token gets a link")
        return json_response({"link": new_link()})

    async def listed(request: Request) -> Response:
        return json_response({"logins": [logins.describe(one) for one in reversed(logins.alive())]})

    async def end(request: Request) -> Response:
        await logins.revoke(request.path_params["login"])
        return json_response({})

    return [
        Route("/api/logins", listed, methods=["GET"]),
        Route("/api/logins", link, methods=["POST"]),
        Route("/api/logins/{login}", end, methods=["DELETE"]),
    ]
