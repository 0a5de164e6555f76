"""The page that compares two sessions: their figures, their turns beside each other, and the files they have left.

Without two sessions it is the form that chooses them.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.show.markup import product
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.compare.aligning import LEAST, aligned
from tooltap.daemon.web.page.compare.figures import Figure, figures_of
from tooltap.daemon.web.page.compare.files import ComparedFile, compared_files, files_of
from tooltap.daemon.web.page.compare.turns import Turn, Turns, turns_of
from tooltap.daemon.web.page.preferences import COOKIE, from_cookie
from tooltap.daemon.web.page.session_head import STATUSES, name_of, project_of, status_of
from tooltap.daemon.web.templating import template

__all__ = ["Compare"]

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
CHOICES = 200
"""Newest sessions in the form."""


class CompareQuery(msgspec.Struct, kw_only=True, frozen=True):
    left: Name = ""
    right: Name = ""


class Choice(NamedTuple):
    session: str
    label: str
    """What it is called."""
    who: str
    """Its folder, agent and model."""
    ts: int | None
    address: str
    """Of its comparison with the left session."""


class Side(NamedTuple):
    """One session, above its column."""

    session: str
    name: str
    who: str
    words: str
    status: str
    address: str
    ts: int | None


class PairOfTurns(NamedTuple):
    left: Turn | None
    right: Turn | None
    is_same: bool
    """Both were asked the same."""


class Comparison(NamedTuple):
    left: Side
    right: Side
    swapped: str
    """The address with the sides exchanged."""
    figures: list[Figure]
    pairs: list[PairOfTurns]
    unknown_prompts: bool
    """A turn has a prompt that no event states."""
    more_turns: bool
    """There are turns that were not read."""
    files: list[ComparedFile]
    more_files: int
    all_changes: bool
    """All changes of files were read."""


class Compare:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def page(self, request: Request) -> Response:
        query = parse_query(request.scope["query_string"], CompareQuery)
        left, right = await self._row(query.left), await self._row(query.right)
        unknown = [name for name, row in ((query.left, left), (query.right, right)) if name and row is None]
        comparison = None
        if left is not None and right is not None and query.left != query.right:
            comparison = await self._comparison(left, right)
        rows = await self._journal.sessions(limit=CHOICES, order="time")
        preferences = from_cookie(request.cookies.get(COOKIE))
        html = await anyio.to_thread.run_sync(
            lambda: template(
                "compare.html",
                query=query,
                left=None if left is None else _side(left),
                unknown=unknown,
                comparison=comparison,
                choices=_choices(rows, left, [one for one in (left, right) if one is not None]),
                least=round(100 * LEAST),
                preferences=preferences,
                tools=sorted(TOOL_CARDS),
                here=_address(query.left, query.right),
                event_url=event_url,
                session_url=session_url,
            )
        )
        return HTMLResponse(html, 404 if unknown else 200)

    async def _row(self, session: str) -> dict[str, Any] | None:
        rows = await self._journal.sessions(limit=1, wanted=SessionFilter(session=(session,))) if session else []
        return rows[0] if rows else None

    async def _comparison(self, left: dict[str, Any], right: dict[str, Any]) -> Comparison:
        turns = [await turns_of(self._journal, row["session"]) for row in (left, right)]
        files = [await files_of(self._journal, row) for row in (left, right)]
        pairs = await anyio.to_thread.run_sync(_pairs, turns[0], turns[1])
        compared, more = await anyio.to_thread.run_sync(compared_files, files[0].known, files[1].known)
        return Comparison(
            _side(left),
            _side(right),
            _address(right["session"], left["session"]),
            figures_of(left, right),
            pairs,
            any(one.prompt is None for side in turns for one in side.turns),
            not all(one.complete for one in turns),
            compared,
            more,
            all(one.complete for one in files),
        )


def _pairs(left: Turns, right: Turns) -> list[PairOfTurns]:
    prompts = [[one.prompt and one.prompt.text for one in side.turns] for side in (left, right)]
    pairs = []
    for a, b in aligned(*prompts):
        one, other = None if a is None else left.turns[a], None if b is None else right.turns[b]
        is_same = (
            one is not None
            and other is not None
            and one.prompt is not None
            and other.prompt is not None
            and one.prompt.text == other.prompt.text
        )
        pairs.append(PairOfTurns(one, other, is_same))
    return pairs


def _side(row: dict[str, Any]) -> Side:
    status = status_of(row)
    address = session_url(row["session"])
    return Side(
        row["session"], name_of(row), _who(row), STATUSES.get(status, status), status, address, row.get("firstTs")
    )


def _who(row: dict[str, Any]) -> str:
    parts = [project_of(row), f"{product(row['provider'])} {row.get('model') or ''}".strip()]
    return " · ".join(part for part in parts if part)


def _choices(
    rows: list[dict[str, Any]], left: dict[str, Any] | None, chosen: list[dict[str, Any]]
) -> list[tuple[str, list[Choice]]]:
    """Return the sessions to choose from, in groups: those of the left session's project first."""
    listed = {row["session"] for row in rows}
    rows = [*(row for row in chosen if row["session"] not in listed), *rows]
    project = "" if left is None else project_of(left)
    if not project:
        return [("Newest sessions", [_choice(row, left) for row in rows])]
    same = [row for row in rows if project_of(row) == project]
    others = [row for row in rows if project_of(row) != project]
    groups = ((f"In {project}", same), ("Other sessions", others))
    return [(name, [_choice(row, left) for row in group]) for name, group in groups]


def _choice(row: dict[str, Any], left: dict[str, Any] | None) -> Choice:
    address = _address("" if left is None else left["session"], row["session"])
    return Choice(row["session"], name_of(row), _who(row), row.get("lastTs"), address)


def _address(left: str, right: str) -> str:
    given = {name: value for name, value in (("left", left), ("right", right)) if value}
    return f"/compare?{urlencode(given)}" if given else "/compare"
