"""Where earlier addresses of the page lead: the timeline was at `/`, and the table of sessions at `/sessions`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.page.queries import PageQuery

__all__ = ["timeline_of", "to_home"]

TIMELINE_KEYS = frozenset({"session", "stream", "provider", "kind", "tool", "state", "text", "after", "at", "sessions"})
"""Keys of a query that the timeline has and the table of sessions has not."""


def timeline_of(query: bytes) -> str | None:
    """Return the address of the timeline that a query at `/` asked for; None if it is one of the table of sessions.
    Raises `WebError`."""
    pairs = parse_qsl(query.decode("latin-1"), errors="replace")
    if any(key in TIMELINE_KEYS or (key == "before" and value.isdecimal()) for key, value in pairs):
        return parse_query(query, PageQuery).page_url()
    return None


async def to_home(request: Request) -> Response:
    """Redirect from `/sessions`, with its filters."""
    query = request.scope["query_string"].decode("latin-1")
    return RedirectResponse(f"/?{query}" if query else "/", 303)
