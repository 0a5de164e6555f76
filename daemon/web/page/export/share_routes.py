"""The endpoints of sharing: the page where a session is looked through before it is downloaded, and its files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.passes import with_pass
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.export.download import FORMS, Form, download
from tooltap.daemon.web.page.export.redaction import Redaction
from tooltap.daemon.web.page.export.share import ShareQuery, known_row_of, part_of, share_page
from tooltap.daemon.web.page.preferences import COOKIE, from_cookie
from tooltap.daemon.web.page.session_head import name_of
from tooltap.daemon.web.templating import template

__all__ = ["routes"]

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(services: Services, logins: Logins, with_error_page: Callable[[Endpoint], Endpoint]) -> list[Route]:
    journal, search_bytes = services.journal, services.config.web.search_bytes

    def admitting(url: str) -> str:
        return with_pass(url, logins.lasting_pass(url))

    async def share(request: Request) -> Response:
        query = parse_query(request.scope["query_string"], ShareQuery)
        values = await share_page(journal, request.path_params["session"], query, search_bytes, admitting)
        preferences = from_cookie(request.cookies.get(COOKIE))
        html = await anyio.to_thread.run_sync(lambda: template("share.html", preferences=preferences, **values))
        return HTMLResponse(html)

    def file(form: Form) -> Endpoint:
        async def answer(request: Request) -> Response:
            query = parse_query(request.scope["query_string"], ShareQuery)
            session = request.path_params["session"]
            title = name_of(await known_row_of(journal, session))
            part = await part_of(journal, session, query, search_bytes)
            return await download(journal, session, title, form, part, Redaction(masks=query.redact == "yes"))

        return answer

    files = [Route(f"/sessions/{{session:path}}/export.{form}", with_error_page(file(form))) for form, _, _ in FORMS]
    return [Route("/sessions/{session:path}/share", with_error_page(share)), *files]
