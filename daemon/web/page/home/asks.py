"""What waits for a person, of all sessions, in full and with where to answer it."""

from __future__ import annotations

import anyio
from markupsafe import Markup

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.session_head import asked_in, name_of, project_of
from tooltap.daemon.web.templating import template

__all__ = ["what_waits"]

MOST = 6
"""Sessions whose question is shown; the others are in the table."""


async def what_waits(journal: Journal, fragments: Fragments) -> Markup:
    """Return the latest question of each session that waits, the newest first; empty if there is none. Raises
    `JournalError`."""
    rows = await journal.sessions(limit=MOST, order="time", wanted=SessionFilter(status=("waiting",)))
    asks = []
    for row in rows:
        for ask in (await asked_in(journal, fragments, row["session"]))[-1:]:
            asks.append((row, name_of(row), project_of(row), session_url(row["session"]), ask))
    return await anyio.to_thread.run_sync(lambda: template("home_asks.html", asks=asks)) if asks else Markup()
