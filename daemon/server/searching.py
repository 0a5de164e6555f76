"""The `search` request: the query to the index, and the rows of the sessions that have hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.search.query import Tally, Wanted, expression_of
from tooltap.daemon.search.search import Answer, Search, UnavailableError
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.protocol.frames import FrameError
from tooltap.protocol.replies import FoundEvent, FoundSession, SearchResult
from tooltap.protocol.requests import SearchRequest

__all__ = ["search_result"]

SESSIONS = 100
"""Sessions in an answer."""
MOST_SESSIONS = 5_000
"""Sessions with hits whose status is looked up: those with the newest hits."""


async def search_result(search: Search, journal: Journal, request: SearchRequest) -> dict[str, Any]:
    """Raises `FrameError`, `JournalError`."""
    expression = expression_of(request.query)
    if not expression:
        raise FrameError("bad-frame", "search: `query` needs at least one letter or digit")
    wanted = Wanted(
        expression,
        sessions=request.session,
        providers=request.provider,
        kinds=request.kind,
        tools=request.tool,
        folders=request.project,
        since=request.since,
        until=request.until,
    )
    try:
        if request.status is not None:
            wanted = await _of_status(search, journal, wanted, request)
        answer = await search.find(
            wanted,
            before=request.before,
            limit=request.limit,
            most_of_session=request.per_session,
            counts=request.counts,
        )
    except UnavailableError as error:
        raise FrameError("no-index", str(error)) from None
    tallies = answer.tallies if request.counts else _tallies(answer)
    rows = await _rows(journal, [one.session for one in tallies[:SESSIONS]])
    result = SearchResult(
        hits=[
            FoundEvent(
                seq=one.seq,
                session=one.session,
                stream=one.event.stream,
                kind=one.event.kind,
                ts=one.event.ts,
                tool=one.event.tool,
                text=one.snippet.text,
                ranges=[list(found) for found in one.snippet.ranges],
            )
            for one in answer.hits
        ],
        # A session that is not in the journal any more has no hits: what the index has of it is about to be deleted.
        sessions=[
            FoundSession(
                session=one.session,
                provider=row["provider"],
                title=row.get("title"),
                project=row.get("project"),
                status=row.get("status"),
                last_ts=row.get("lastTs"),
                hits=one.hits if request.counts else None,
                latest=one.latest,
            )
            for one in tallies[:SESSIONS]
            if (row := rows.get(one.session)) is not None
        ],
        total=sum(one.hits for one in tallies) if request.counts else None,
        found_in=len(tallies) if request.counts else None,
        next=answer.next,
        complete=answer.complete,
        upto=answer.upto,
        behind=answer.behind,
        floor=answer.floor or None,
    )
    described: dict[str, Any] = msgspec.to_builtins(result)
    return described


async def _of_status(search: Search, journal: Journal, wanted: Wanted, request: SearchRequest) -> Wanted:
    """Only the sessions that have one of the statuses, among those that have hits."""
    tallies, _ = await search.count(wanted, before=request.before)
    rows = await _rows(journal, [one.session for one in tallies[:MOST_SESSIONS]], request.status)
    return wanted._replace(sessions=list(rows))


async def _rows(
    journal: Journal, names: Sequence[str], status: tuple[str, ...] | None = None
) -> dict[str, dict[str, Any]]:
    wanted = SessionFilter(session=tuple(names), status=status)
    found = await journal.sessions(limit=len(names), wanted=wanted) if names else []
    return {one["session"]: one for one in found}


def _tallies(answer: Answer) -> list[Tally]:
    """The sessions of the hits themselves."""
    found: dict[str, Tally] = {}
    for one in answer.hits:
        found.setdefault(one.session, Tally(one.session, one.event.provider, None, 0, one.seq))
    return list(found.values())
