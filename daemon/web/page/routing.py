"""Shared code of the pages: routes, which show errors as a page, the reader's preferences, and the templates.

A page is a module with `routes(…)`, which takes the parts of the daemon that it needs and returns its routes.
`PageRoute` is for addresses that people open; what scripts fetch is a `Route`, whose errors are JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar

import anyio
from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tooltap.daemon.journal.interface import NEWEST, Journal, JournalError
from tooltap.daemon.sessions.listing import NO_INTACT_ROW, THIS_MACHINE, ProjectNames, SessionFilter, machine_name
from tooltap.daemon.sessions.stored import check_not_lost
from tooltap.daemon.show.markup import environment
from tooltap.daemon.web.http.requests import SessionRoute, WebError, parse_query
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.preferences import COOKIE, Preferences, from_cookie
from tooltap.protocol.filters import Filter

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


class PageRoute(SessionRoute):
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


async def row_of(journal: Journal, session: str) -> dict[str, Any] | None:
    """Return the row of a session; None if the journal has no event of it. Raises `JournalError`."""
    rows = await journal.sessions(limit=1, wanted=SessionFilter(session=(session,)))
    return rows[0] if rows else None


async def project_names(journal: Journal) -> ProjectNames:
    """Return the names of all projects. Raises `JournalError`."""
    return ProjectNames((await journal.count_sessions())["project"])


async def offered_hosts(journal: Journal, chosen: Collection[str]) -> list[str]:
    """Return the hosts to choose from, as filters name them: this machine first; none while there is no other.
    `chosen`: those of the filter. Raises `JournalError`."""
    remotes = sorted({*await journal.remotes(), *chosen} - {THIS_MACHINE})
    return [THIS_MACHINE, *remotes] if remotes or chosen else []


async def known_row_of(journal: Journal, session: str) -> dict[str, Any]:
    """Return the row of a session. Raises `WebError` if the journal has none, and `JournalError`, also if it may have
    lost the row."""
    row = await row_of(journal, session)
    if row is None:
        events, _ = await journal.read(0, Filter(session=(session,)), max_bytes=1)
        check_not_lost(journal, session)
        if events:
            raise JournalError(NO_INTACT_ROW.format(session[:200]))
        raise WebError(404, "not-found", f"there is no session {session[:200]!r}")
    return row


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


def template(name: str, **values: Any) -> Markup:
    """Render a template of `daemon/web/templates`, which may use those of `daemon/show`."""
    return Markup(_environment().get_template(name).render(**values))


def compile_templates() -> None:
    """Compile all templates, so that the first reader does not wait for it."""
    for name in _environment().list_templates(["html"]):  # not what is compiled, beside them
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    made = environment("tooltap.daemon.web", "tooltap.daemon.show")
    made.filters["machine"] = machine_name
    return made
