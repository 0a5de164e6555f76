"""The head of a session's page: its title, what one asks of it at a glance, and in full what waits for a person."""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio
from markupsafe import Markup

from tooltap.daemon.journal.interface import CorruptError, Journal, StoredEvent
from tooltap.daemon.sessions.listing import STATUSES, SessionFilter, is_live, name_of, project_of, status_of
from tooltap.daemon.show.shown import Fragment
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.templating import template

MAX_WAITING = 8


class SessionHead(NamedTuple):
    title: str
    html: Markup
    """The facts, and what waits."""
    session: str
    first_seq: int
    events: int
    is_live: bool
    """Whether the session is running."""
    files: int | None
    """How many it has changed, if that is known."""

    @classmethod
    async def of(cls, journal: Journal, fragments: Fragments, session: str) -> SessionHead | None:
        """Return the head of a session; None if the journal has no event of it. Raises `JournalError`."""
        row = await row_of(journal, session)
        if row is None:
            return None
        waiting = await asked_in(journal, fragments, session)
        values = {
            "one": row,
            "failures": session_url(session, state="failed"),
            "status": status_of(row),
            "words": STATUSES.get(status_of(row), ""),
            "project": project_of(row),
            "waiting": waiting,
            "share_url": f"{session_url(session)}/share",
        }
        html = await anyio.to_thread.run_sync(lambda: template("session_head.html", title=name_of(row), **values))
        return cls(name_of(row), html, session, row["firstSeq"], row["events"], is_live(row), row.get("files"))


async def asked_in(journal: Journal, fragments: Fragments, session: str) -> list[Fragment]:
    """Return what waits for a person in a session, in full. Raises `JournalError`."""
    opened = await journal.open_calls(session)
    asked = [one["seq"] for one in opened["permissions"]][-MAX_WAITING:]
    return await fragments.of(await _events(journal, asked), lambda _: "full")


async def row_of(journal: Journal, session: str) -> dict[str, Any] | None:
    """Return the row of a session; None if the journal has no event of it. Raises `JournalError`."""
    rows = await journal.sessions(limit=1, wanted=SessionFilter(session=(session,)))
    return rows[0] if rows else None


async def _events(journal: Journal, seqs: list[int]) -> list[StoredEvent]:
    found = []
    for seq in seqs:
        try:
            event = await journal.event(seq)
        except CorruptError:
            continue
        if event is not None:
            found.append(event)
    return found
