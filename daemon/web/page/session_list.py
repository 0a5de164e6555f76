"""The list of sessions beside the timeline, newest first; rendered once for all readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.web.html.markup import template
from tooltap.daemon.web.http.services import Services

__all__ = ["Part", "SessionList"]

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

    def find(self, names: Sequence[str] | None) -> dict[str, Any] | None:
        """Return the row of the session if exactly one is requested and it is among the newest."""
        if names is None or len(names) != 1:
            return None
        return next((row for row in self._rows if row["session"] == names[0]), None)

    async def part(self, before: int | None = None) -> Part:
        """Return the newest sessions, or those whose last event is before this one. Raises `JournalError`."""
        latest = self._journal.latest
        if self._newest is None or self._newest[0] != latest:
            self._newest = latest, await self._render(None)
        return self._newest[1] if before is None else await self._render(before)

    async def _render(self, before: int | None) -> Part:
        rows = [one | {"name": _name(one)} for one in await self._journal.sessions(limit=SESSIONS, before=before)]
        opened = await self._journal.open_calls()
        calls = Counter(row["session"] for row in opened["calls"])
        waiting = Counter(row["session"] for row in opened["permissions"])
        html = await anyio.to_thread.run_sync(
            lambda: template(
                "sessions.html",
                sessions=rows,
                calls=calls,
                waiting=waiting,
                older=rows[-1]["lastSeq"] if len(rows) == SESSIONS else None,
            )
        )
        return Part(html, rows)


def _name(row: dict[str, Any]) -> str:
    """Return its title, or else its folder, or else its id."""
    return row.get("title") or row.get("cwd", "").rstrip("/").rpartition("/")[2] or str(row["session"])
