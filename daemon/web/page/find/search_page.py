"""The page of a search: hits grouped by session, filters that live in the address, and why nothing was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.show.markup import product
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.find.hits import ShownHit, shown_hit
from tooltap.daemon.web.page.session_head import STATUSES, name_of, project_of, status_of
from tooltap.protocol.frames import Reply
from tooltap.protocol.requests import SearchRequest

__all__ = ["SearchQuery", "choices", "search_page"]

HITS = 60
"""Most hits of a page, …"""
PER_SESSION = 3
"""… and of them of one session, if several are searched."""
DAY = 86_400_000
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
PERIOD_WORDS = {"day": "Last 24 hours", "week": "Last 7 days", "month": "Last 30 days"}
FILTERS = ("agent", "project", "tool", "state", "period", "session")

Status: TypeAlias = Literal["running", "waiting", "failed", "completed", "interrupted"]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]


class SearchQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    text: Word = ""
    agent: tuple[Word, ...] = ()
    """Providers."""
    project: tuple[Word, ...] = ()
    tool: tuple[Word, ...] = ()
    state: tuple[Status, ...] = ()
    """Of the sessions."""
    period: Literal["day", "week", "month"] | None = None
    """How long ago the events happened, at most."""
    session: tuple[Word, ...] = ()
    before: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    """`next` of the page of newer hits."""

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Return the filters that are set."""
        given = {name: getattr(self, name) or () for name in FILTERS}
        return {name: (value,) if isinstance(value, str) else value for name, value in given.items() if value}

    def url(self, **changes: Any) -> str:
        """Return the address with other values. An empty one is left out, and so is the place among the hits."""
        values = {"text": self.text, **self.filters, **changes}
        pairs = [(key, one) for key, value in values.items() for one in _several(value)]
        return f"/search?{urlencode(pairs)}" if pairs else "/search"

    def without_filters(self) -> str:
        return self.url(**dict.fromkeys(FILTERS, ()))

    def request(self, now: int, **more: Any) -> SearchRequest:
        """`now`: in milliseconds since the epoch."""
        return SearchRequest(
            query=self.text,
            session=self.session or None,
            provider=self.agent or None,
            project=self.project or None,
            tool=self.tool or None,
            status=self.state or None,
            since=None if self.period is None else max(now - PERIODS[self.period], 0),
            **more,
        )


class Group(NamedTuple):
    """The hits of one session."""

    session: str
    url: str
    name: str
    about: dict[str, Any]
    """Its row: `provider`, `lastTs` …; empty if the session is not among those that were described."""
    folder: str
    status: str
    words: str
    """The status in words."""
    hits: list[ShownHit]
    all_hits: int
    """All of its hits, or the older ones on a page of older hits."""
    all_url: str
    """Where all of them are listed."""


class Result(NamedTuple):
    groups: list[Group]
    total: int
    found_in: int
    """Sessions."""
    is_complete: bool
    """Whether everything was searched and counted."""
    searched: int | None
    """Percent of the events that are in the index, if some are not."""
    floor: int | None
    """Events up to this `seq` are not searched."""
    problem: str
    """Why the search could not be made, as one sentence."""
    unfiltered: int
    """Hits without the filters, if there is none with them."""
    older: str | None
    """The address of the next page."""


async def search_page(services: Services, query: SearchQuery) -> Result | None:
    """Search; None if nothing is asked."""
    if not query.text.strip():
        return None
    now = wall_clock()
    most = None if query.session else PER_SESSION
    reply = await services.requests.reply_to(query.request(now, limit=HITS, per_session=most, before=query.before))
    if reply.error is not None:
        return Result([], 0, 0, True, None, None, _sentence(reply), 0, None)
    found = reply.result
    unfiltered = 0
    if not found["hits"] and query.filters:
        everywhere = await services.requests.reply_to(SearchRequest(query=query.text, limit=1))
        unfiltered = 0 if everywhere.error is not None else everywhere.result.get("total", 0)
    next_before = found.get("next")
    return Result(
        groups=_groups(query, found),
        total=found.get("total", 0),
        found_in=found.get("foundIn", 0),
        is_complete=found["complete"],
        searched=100 * found["upto"] // (found["upto"] + found["behind"]) if found["behind"] else None,
        floor=found.get("floor"),
        problem="",
        unfiltered=unfiltered,
        older=None if next_before is None else query.url(before=next_before),
    )


async def choices(journal: Journal, tools: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the values of each filter that can be chosen, and their words. Raises `JournalError`."""
    counted = await journal.count_sessions()
    projects = {project_of({"project": one}): one for one in counted["project"]}
    return {
        "agent": {one: product(one) for one in sorted(counted["provider"])},
        "project": {name: name for name in sorted(projects) if name},
        "tool": {one: one for one in sorted(tools)},
        "state": STATUSES,
        "period": PERIOD_WORDS,
    }


def _groups(query: SearchQuery, found: dict[str, Any]) -> list[Group]:
    rows = {one["session"]: one for one in found["sessions"]}
    by_session: dict[str, list[ShownHit]] = {}
    for one in found["hits"]:
        by_session.setdefault(one["session"], []).append(shown_hit(one))
    return [_group(query, session, hits, rows.get(session)) for session, hits in by_session.items()]


def _group(query: SearchQuery, session: str, hits: list[ShownHit], row: dict[str, Any] | None) -> Group:
    about = row or {}
    status = status_of(about) if about.get("status") else ""
    return Group(
        session=session,
        url=session_url(session),
        name=name_of({**about, "session": session}),
        about=about,
        folder=project_of(about),
        status=status,
        words=STATUSES.get(status, status),
        hits=hits,
        all_hits=max(about.get("hits") or 0, len(hits)),
        all_url=query.url(session=session),
    )


def _sentence(reply: Reply) -> str:
    assert reply.error is not None
    if reply.error.code == "bad-frame":
        return "The search needs at least one letter or digit."
    sentence = reply.error.message
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _several(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return value
    return () if value in ("", None) else (value,)
