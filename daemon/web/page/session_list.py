"""The list of sessions beside the timeline, by their last activity; rendered once for all readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.sessions.listing import SessionPlace, name_of, place_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.templating import template

SESSIONS = 50
"""Most sessions in one part of the list."""


class Part(NamedTuple):
    """A part of the list."""

    html: Markup
    rows: Sequence[dict[str, Any]]


class SessionList:
    def __init__(self, services: Services) -> None:
        self._journal = services.journal
        self._newest: tuple[int, Part] | None = None
        """The first part, and the journal's latest event when it was rendered."""

    @property
    def providers(self) -> set[str]:
        """The providers of the newest sessions."""
        return {row["provider"] for row in self._rows}

    @property
    def _rows(self) -> Sequence[dict[str, Any]]:
        return () if self._newest is None else self._newest[1].rows

    async def part(self, cursor: str | None = None) -> Part:
        """Return the newest sessions, or those after a part that had this `cursor`. Raises `JournalError`, and
        `ValueError` for an invalid cursor."""
        before = None if cursor is None else SessionPlace.of_cursor(cursor)
        latest = self._journal.latest
        if self._newest is None or self._newest[0] != latest:
            self._newest = latest, await self._render(None)
        return self._newest[1] if before is None else await self._render(before)

    async def _render(self, before: SessionPlace | None) -> Part:
        rows = [
            one | {"name": name_of(one), "url": session_url(one["session"]), "shown": _state(one)}
            for one in await self._journal.sessions(limit=SESSIONS, before=before, order="time")
        ]
        opened = await self._journal.open_calls()
        calls = Counter(row["session"] for row in opened["calls"])
        waiting = Counter(row["session"] for row in opened["permissions"])
        html = await anyio.to_thread.run_sync(
            lambda: template(
                "sessions.html",
                sessions=rows,
                calls=calls,
                waiting=waiting,
                older=place_of(rows[-1]).cursor if len(rows) == SESSIONS else None,
            )
        )
        return Part(html, rows)


def _state(row: dict[str, Any]) -> str:
    """Return its state; `idle` between two turns: nothing is running, and nothing was interrupted."""
    is_between = row["state"] != "ended" and row.get("turn") not in (None, "started")
    return "idle" if is_between else str(row["state"])
