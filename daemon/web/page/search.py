"""The search page, with hits by session and filters that live in the address; and what the palette (⌘K) finds.

The script asks for the palette's results while somebody types, and inserts them: sessions by name, files that were
changed, commands that were run, and any text. Each part shows a few; the search page has all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tooltap.daemon.formats import NOT_INDEXED
from tooltap.daemon.journal.interface import NEWEST, CorruptError, Journal
from tooltap.daemon.sessions.listing import (
    STATUSES,
    WITH_CONTENT,
    ProjectNames,
    machine_name,
    name_of,
    names_of,
    status_of,
)
from tooltap.daemon.show.markup import product
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.routing import PageRoute, html, offered_hosts, preferences_of, project_names, query_of
from tooltap.normalizers.tools.registry import family_of, names_in
from tooltap.protocol.events import ResultStatus
from tooltap.protocol.frames import Reply, SearchRequest

KINDS = {
    "message": "Message",
    "reasoning": "Reasoning",
    "session": "Session",
    "notice": "Notice",
    "permission-request": "Permission",
    "permission-response": "Permission",
    "unparsed": "Unread line",
}

LEAD = 12
"""Code points that a narrow row shows before the first match."""


class ShownHit(NamedTuple):
    seq: int
    session: str
    url: str
    """Address of the timeline around the event."""
    label: str
    family: str | None
    """Family of the tool, if the hit is in a call."""
    ts: int | None
    parts: list[tuple[str, bool]]
    """Pieces of the text, each with whether it matches the query."""
    is_argument: bool
    """Whether the text is of an argument of a call that does not say what the call did."""

    @property
    def narrow(self) -> list[tuple[str, bool]]:
        """Return the parts for a row that has no room for the whole text: from shortly before the first match on."""
        (text, found), *rest = self.parts or [("", True)]
        return self.parts if found or not rest or len(text) <= LEAD else [(f"…{text[-LEAD:]}", False), *rest]


def shown_hit(found: dict[str, Any]) -> ShownHit:
    """Convert a hit of a reply to `search`."""
    seq, session, tool, kind = found["seq"], found["session"], found.get("tool"), found["kind"]
    return ShownHit(
        seq=seq,
        session=session,
        url=f"{session_url(session, at=seq)}#e{seq}",
        label=KINDS.get(kind, kind) if tool is None else _of_tool(tool, kind, found.get("argument")),
        family=None if tool is None else family_of(tool),
        ts=found.get("ts"),
        parts=_parts(found["text"], found["ranges"]),
        is_argument="argument" in found,
    )


def _of_tool(tool: str, kind: str, argument: str | None) -> str:
    if argument is not None:
        return f"{tool} {argument}"
    return f"{tool} output" if kind == "tool-result" else tool


def _parts(text: str, ranges: list[list[int]]) -> list[tuple[str, bool]]:
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in ranges:
        parts += (text[at:start], False), (text[max(start, at) : end], True)
        at = max(at, end)
    return [(part, found) for part, found in (*parts, (text[at:], False)) if part]


HITS = 60
"""Maximum hits on a page."""
PER_SESSION = 3
"""Maximum hits of one session on a page, if several sessions are searched."""
DAY = 86_400_000
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
PERIOD_WORDS = {"day": "Last 24 hours", "week": "Last 7 days", "month": "Last 30 days"}
FILTERS = ("agent", "project", "host", "tool", "state", "outcome", "period", "session")

OUTCOME_WORDS = {
    "failed": "Failed",
    "denied": "Denied",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "completed": "Completed",
}
"""Status of a result -> its label."""

Status: TypeAlias = Literal["running", "waiting", "failed", "completed", "interrupted", "unknown"]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]


class SearchQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    text: Word = ""
    agent: tuple[Word, ...] = ()
    """Providers."""
    project: tuple[Word, ...] = ()
    """Names of the projects' folders."""
    host: tuple[Word, ...] = ()
    """Names of remotes, or `THIS_MACHINE`."""
    tool: tuple[Word, ...] = ()
    state: tuple[Status, ...] = ()
    """Statuses of the sessions."""
    outcome: tuple[ResultStatus, ...] = ()
    """How the calls ended that the events are about."""
    period: Literal["day", "week", "month"] | None = None
    """Maximum age of the events."""
    session: tuple[Word, ...] = ()
    before: Annotated[int, msgspec.Meta(ge=0, le=NEWEST)] | None = None
    """Cursor: `next` of the previous page, whose hits are newer."""

    @property
    def has_words(self) -> bool:
        return bool(self.text.strip())

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Return the filters that are set."""
        given = {name: getattr(self, name) or () for name in FILTERS}
        return {name: (value,) if isinstance(value, str) else value for name, value in given.items() if value}

    def url(self, **changes: Any) -> str:
        """Return the address with some values changed. Empty values are left out, and so is the cursor `before`."""
        values = {"text": self.text, **self.filters, **changes}
        pairs = [(key, one) for key, value in values.items() for one in _several(value)]
        return f"/search?{urlencode(pairs)}" if pairs else "/search"

    def without_filters(self) -> str:
        return self.url(**dict.fromkeys(FILTERS, ()))

    def request(self, now: int, projects: ProjectNames, **more: Any) -> SearchRequest:
        """`now`: in milliseconds since the epoch."""
        return SearchRequest(
            query=self.text,
            session=self.session or None,
            provider=self.agent or None,
            project=projects.folders(self.project) or None,
            host=self.host or None,
            tool=self.tool or None,
            status=self.state or None,
            outcome=self.outcome or None,
            since=None if self.period is None else max(now - PERIODS[self.period], 0),
            **more,
        )


class Group(NamedTuple):
    """The hits of one session."""

    session: str
    url: str
    name: str
    about: dict[str, Any]
    """Row of the session: `provider`, `lastTs` …; empty if the reply does not include it."""
    folder: str
    status: str
    words: str
    """The status in words."""
    hits: list[ShownHit]
    all_hits: int
    """Number of all hits in the session; on a page of older hits, of the older ones."""
    all_url: str
    """Address of the list of them."""


class Result(NamedTuple):
    groups: list[Group]
    total: int
    found_in: int
    """Number of sessions with hits."""
    is_complete: bool
    """Whether everything was searched and counted."""
    searched: int | None
    """Percent of the events that are in the index; None if all are."""
    floor: int | None
    """`seq` up to which events are not searched, if any."""
    problem: str
    """Error of the search, as one sentence; empty if there is none."""
    unfiltered: int
    """Number of hits without the filters, if there is none with them."""
    older: str | None
    """Address of the next page, with older hits."""


def routes(services: Services) -> list[BaseRoute]:
    async def searched(request: Request) -> Response:
        query = query_of(request, SearchQuery)
        return await html(
            "search.html",
            query=query,
            result=await search_page(services, query),
            choices=await choices(services.journal, TOOL_CARDS, query.host),
            not_indexed=NOT_INDEXED,
            preferences=preferences_of(request),
            here=query.url(),
        )

    async def found(request: Request) -> Response:
        """Return what the palette shows, as HTML for the script to insert."""
        text = query_of(request, FindQuery).text
        return await html("found.html", text=text, found=await find(services, text))

    return [PageRoute("/search", searched), Route("/find", found)]


async def search_page(services: Services, query: SearchQuery) -> Result:
    """Search. Without words, all events that have a text are found, and stand in the order of time."""
    now = wall_clock()
    most = None if query.session or not query.has_words else PER_SESSION
    names = await project_names(services.journal)
    wanted = query.request(now, names, limit=HITS, per_session=most, before=query.before)
    reply = await services.requests.reply_to(wanted)
    if reply.error is not None:
        return Result([], 0, 0, True, None, None, sentence_of(reply), 0, None)
    found = reply.result
    unfiltered = 0
    if not found["hits"] and query.filters:
        everywhere = await services.requests.reply_to(SearchRequest(query=query.text, limit=1))
        unfiltered = 0 if everywhere.error is not None else everywhere.result.get("total", 0)
    next_before = found.get("next")
    return Result(
        groups=_groups(query, found, names),
        total=found.get("total", 0),
        found_in=found.get("foundIn", 0),
        is_complete=found["complete"],
        searched=100 * found["upto"] // (found["upto"] + found["behind"]) if found["behind"] else None,
        floor=found.get("floor"),
        problem="",
        unfiltered=unfiltered,
        older=None if next_before is None else query.url(before=next_before),
    )


async def choices(journal: Journal, tools: Iterable[str], hosts: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the choices of each filter, with their labels. `hosts`: those that are chosen. Raises `JournalError`."""
    counted = await journal.count_sessions()
    projects = sorted(names_of(counted["project"]).values())
    return {
        "agent": {one: product(one) for one in sorted(counted["provider"])},
        "project": {name: name for name in projects if name},
        "host": {one: machine_name(one) for one in await offered_hosts(journal, hosts)},
        "tool": {one: one for one in sorted(tools)},
        "state": STATUSES,
        "outcome": OUTCOME_WORDS,
        "period": PERIOD_WORDS,
    }


def _groups(query: SearchQuery, found: dict[str, Any], names: ProjectNames) -> list[Group]:
    rows = {one["session"]: one for one in found["sessions"]}
    hits = [shown_hit(one) for one in found["hits"]]
    if not query.has_words:
        together = groupby(hits, key=lambda one: one.session)
        return [_group(query, session, list(some), rows.get(session), names) for session, some in together]
    by_session: dict[str, list[ShownHit]] = {}
    for one in hits:
        by_session.setdefault(one.session, []).append(one)
    return [_group(query, session, some, rows.get(session), names) for session, some in by_session.items()]


def _group(
    query: SearchQuery, session: str, hits: list[ShownHit], row: dict[str, Any] | None, names: ProjectNames
) -> Group:
    about = row or {}
    status = status_of(about) if about.get("status") else ""
    return Group(
        session=session,
        url=session_url(session),
        name=name_of({**about, "session": session}),
        about=about,
        folder=names.of(about),
        status=status,
        words=STATUSES.get(status, status),
        hits=hits,
        all_hits=max(about.get("hits") or 0, len(hits)),
        all_url=query.url(session=session),
    )


def sentence_of(reply: Reply) -> str:
    assert reply.error is not None
    if reply.error.code == "bad-frame":
        return "The search needs at least one letter or digit."
    sentence = reply.error.message
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _several(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return value
    return () if value in ("", None) else (value,)


LOOKED_AT = 1_000
"""Number of newest sessions whose names are searched."""
LATEST = 50
"""Number of sessions that are listed before anything is typed; the script filters them at once."""
SHOWN = 5
"""Maximum results shown in each part."""
ASKED = 20
"""Hits requested for each part: more than shown, since several hits of one file become one."""
TEXT = ("message", "reasoning", "tool-result", "notice", "permission-request")
"""Kinds of event whose text is neither a file's name nor a command."""


class FindQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class NamedSession(NamedTuple):
    session: str
    url: str
    name: str
    provider: str
    folder: str
    status: str
    words: str
    """The status in words."""
    ts: int | None
    words_in: str
    """Text that the script matches with what is typed, case-folded."""


class FoundEvent(NamedTuple):
    hit: ShownHit
    preview: str | None
    """Preview of a call, such as the file that it changes."""
    session: str
    """The name of its session."""


class Found(NamedTuple):
    sessions: list[NamedSession]
    files: list[FoundEvent]
    commands: list[FoundEvent]
    texts: list[FoundEvent]
    total: int
    """Number of matching sessions, also those not listed."""
    problem: str
    """Error of the search for events, as one sentence; empty if there is none."""


async def find(services: Services, text: str) -> Found:
    """Raises `JournalError`."""
    rows = await services.journal.sessions(
        limit=LOOKED_AT if text.strip() else LATEST, order="time", wanted=WITH_CONTENT
    )
    projects = await project_names(services.journal)
    sessions = [_named(row, projects) for row in rows]
    if not text.strip():
        return Found(sessions, [], [], [], len(rows), "")
    words = text.casefold().split()
    matching = [one for one in sessions if all(word in one.words_in for word in words)]
    names = {row["session"]: name_of(row) for row in rows}
    search = _Search(services, text, names)
    files = await search.hits(kind=("tool-call",), tool=names_in("edit"))
    commands = await search.hits(kind=("tool-call",), tool=names_in("shell"))
    texts = await search.hits(kind=TEXT)
    return Found(
        matching[:SHOWN],
        _distinct(files)[:SHOWN],
        commands[:SHOWN],
        texts[:SHOWN],
        len(matching),
        search.problem,
    )


class _Search:
    def __init__(self, services: Services, text: str, names: dict[str, str]) -> None:
        self._services = services
        self._text = text
        self._names = names
        self.problem = ""

    async def hits(self, *, kind: tuple[str, ...], tool: tuple[str, ...] | None = None) -> list[FoundEvent]:
        request = SearchRequest(query=self._text, kind=kind, tool=tool, limit=ASKED, per_session=SHOWN, counts=False)
        reply = await self._services.requests.reply_to(request)
        if reply.error is not None:
            self.problem = reply.error.message if reply.error.code == "no-index" else ""
            return []
        titles = {one["session"]: name_of(one) for one in reply.result["sessions"]} | self._names
        return [
            FoundEvent(hit, await _preview(self._services.journal, hit.seq), titles.get(hit.session, hit.session))
            for hit in map(shown_hit, reply.result["hits"])
        ]


async def _preview(journal: Journal, seq: int) -> str | None:
    try:
        event = await journal.event(seq)
    except CorruptError:
        return None
    return None if event is None else event.head.preview


def _distinct(found: Iterable[FoundEvent]) -> list[FoundEvent]:
    """Return the newest change of each file in each session."""
    seen: dict[tuple[str, str | None], FoundEvent] = {}
    for one in found:
        seen.setdefault((one.hit.session, one.preview), one)
    return list(seen.values())


def _named(row: dict[str, Any], names: ProjectNames) -> NamedSession:
    status = status_of(row)
    name, folder, provider = name_of(row), names.of(row), str(row["provider"])
    return NamedSession(
        session=row["session"],
        url=session_url(row["session"]),
        name=name,
        provider=provider,
        folder=folder,
        status=status,
        words=STATUSES.get(status, status),
        ts=row.get("lastTs"),
        words_in=" ".join((name, row["session"], folder, provider, product(provider))).casefold(),
    )
