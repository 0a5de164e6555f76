"""CORS: pages of other origins that the user allows. They may read what they request with the token, nothing else.

The guard sees their requests like a program's. The cookie that the browser adds is removed, so that a page gets in only
if the user gave it the token.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALLOWED_HEADERS = "Authorization, Last-Event-ID"
PREFLIGHT_SECONDS = 600
BROWSERS_OWN = (b"origin", b"cookie", b"sec-fetch-site")


class Origins:
    """ASGI middleware. `origins`: as browsers send them, such as `http://localhost:5173`."""

    def __init__(self, guarded: ASGIApp, origins: Collection[str]) -> None:
        self._guarded = guarded
        self._origins = {origin.lower() for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        given = headers.getlist("origin")
        if len(given) != 1 or given[0].lower() not in self._origins:
            await self._guarded(scope, receive, send)
            return

        async def allowing(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["Access-Control-Allow-Origin"] = given[0]
                answer.add_vary_header("Origin")
            await send(message)

        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _preflight()(scope, receive, allowing)
            return
        kept = [(name, value) for name, value in scope["headers"] if name not in BROWSERS_OWN]
        await self._guarded({**scope, "headers": kept}, receive, allowing)


def _preflight() -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": "GET, HEAD",
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
        },
    )
