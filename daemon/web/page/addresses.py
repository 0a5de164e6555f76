"""The addresses of the page's parts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, urlencode


def session_url(session: str, **query: str | int | list[str]) -> str:
    """Return the address of a session's page, with these filters of its timeline, such as `state` or `at`."""
    path = f"/sessions/{quote(session, safe='')}"
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def share_url(session: str) -> str:
    """Return the address of the page from which a session is downloaded."""
    return f"{session_url(session)}/share"


def event_url(seq: int) -> str:
    """Return the address of an event's page."""
    return f"/events/{seq}"


def calls_url(**filters: str | Iterable[str]) -> str:
    """Return the address of the page of calls with these filters; empty ones are left out."""
    given = {name: value for name, value in filters.items() if value}
    return f"/calls?{urlencode(given, doseq=True)}" if given else "/calls"
