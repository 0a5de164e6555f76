"""The page of calls: those of all sessions that ended, newest first, with filters in the address."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.journal.interface import NEWEST
from tooltap.daemon.sessions.listing import ProjectNames, name_of
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, project_names, query_of
from tooltap.daemon.web.page.search import OUTCOME_WORDS, PERIOD_WORDS, PERIODS, choices, sentence_of
from tooltap.normalizers.tools.registry import family_of, names_in
from tooltap.protocol.events import ResultStatus
from tooltap.protocol.frames import EndedCallsRequest

FAMILY_WORDS = {
    "edit": "Edits",
    "shell": "Commands",
    "read": "Reads",
    "search": "Searches",
    "web": "Web",
    "task": "Subagents",
    "plan": "Plans",
}
FILTERS = ("outcome", "family", "tool", "agent", "project", "host", "file", "session", "period")
CALLS = 100
"""Maximum calls on a page."""

Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]


class CallsQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    outcome: tuple[ResultStatus, ...] = ()
    family: Literal["edit", "shell", "read", "search", "web", "task", "plan"] | None = None
    tool: tuple[Word, ...] = ()
    agent: tuple[Word, ...] = ()
    """Providers."""
    project: tuple[Word, ...] = ()
    """Names of the projects' folders."""
    host: tuple[Word, ...] = ()
    """Names of remotes, or `THIS_MACHINE`."""
    file: Word = ""
    """Path of a file that the calls name, or its end."""
    session: tuple[Word, ...] = ()
    period: Literal["day", "week", "month"] | None = None
    """Maximum age of the calls."""
    before: Annotated[int, msgspec.Meta(ge=0, le=NEWEST)] | None = None
    """Cursor: `next` of the previous page, whose calls are newer."""

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Return the filters that are set."""
        given = {name: getattr(self, name) or () for name in FILTERS}
        return {name: (value,) if isinstance(value, str) else value for name, value in given.items() if value}

    def url(self, **changes: str | int | None) -> str:
        """Return the address with some values changed; None removes one. The cursor `before` is left out."""
        values: dict[str, Any] = {**self.filters, **{name: (value,) for name, value in changes.items()}}
        pairs = [(name, one) for name, several in values.items() for one in several if one is not None]
        return f"/calls?{urlencode(pairs)}" if pairs else "/calls"

    def request(self, now: int, projects: ProjectNames) -> EndedCallsRequest:
        """`now`: in milliseconds since the epoch."""
        return EndedCallsRequest(
            outcome=self.outcome or None,
            tool=(*self.tool, *(names_in(self.family) if self.family else ())) or None,
            provider=self.agent or None,
            project=projects.folders(self.project) or None,
            host=self.host or None,
            file=self.file or None,
            session=self.session or None,
            since=None if self.period is None else max(now - PERIODS[self.period], 0),
            before=self.before,
            limit=CALLS,
        )


class ShownCall(NamedTuple):
    one: dict[str, Any]
    """The call, as in a reply to `ended-calls`."""
    url: str
    """Address of the timeline around the call."""
    outcome: str
    """The outcome in words."""
    family: str
    text: str
    """What was called: its one argument, or its title."""
    session: str
    """Name of the session."""
    session_url: str
    folder: str


class Result(NamedTuple):
    calls: list[ShownCall]
    is_complete: bool
    """Whether everything was searched."""
    searched: int | None
    """Percent of the events that are in the index; None if all are."""
    problem: str
    """Why there is no list, as one sentence; empty if there is one."""
    older: str | None
    """Address of the next page, with older calls."""


def routes(services: Services) -> list[BaseRoute]:
    async def listed(request: Request) -> Response:
        query = query_of(request, CallsQuery)
        return await html(
            "calls.html",
            query=query,
            result=await calls_page(services, query),
            choices=await choices(services.journal, TOOL_CARDS, query.host),
            outcomes=OUTCOME_WORDS,
            families=FAMILY_WORDS,
            periods=PERIOD_WORDS,
            preferences=preferences_of(request),
            here=query.url(),
        )

    return [PageRoute("/calls", listed)]


async def calls_page(services: Services, query: CallsQuery) -> Result:
    """Raises `JournalError`."""
    names = await project_names(services.journal)
    reply = await services.requests.reply_to(query.request(wall_clock(), names))
    if reply.error is not None:
        wrong = "The path of a file needs at least one letter or digit."
        return Result([], True, None, wrong if reply.error.code == "bad-frame" else sentence_of(reply), None)
    found = reply.result
    older = found.get("next")
    return Result(
        calls=[_shown(one, names) for one in found["calls"]],
        is_complete=found["complete"],
        searched=100 * found["upto"] // (found["upto"] + found["behind"]) if found["behind"] else None,
        problem="",
        older=None if older is None else query.url(before=older),
    )


def _shown(one: dict[str, Any], names: ProjectNames) -> ShownCall:
    seq = one.get("seq") or one["resultSeq"]
    return ShownCall(
        one=one,
        url=f"{session_url(one['session'], at=seq)}#e{seq}",
        outcome=OUTCOME_WORDS[one["outcome"]],
        family=family_of(one["name"]),
        text=one.get("preview") or one.get("callTitle") or "",
        session=name_of(one),
        session_url=session_url(one["session"]),
        folder=names.of(one),
    )
