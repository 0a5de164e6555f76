"""What the palette (⌘K) finds: sessions by name, files that were changed, commands that were run, and any text.

The script asks for it while somebody types, and inserts it. Each part shows a few; the page of the search has all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import CorruptError, Journal
from tooltap.daemon.show.markup import product
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.find.hits import ShownHit, shown_hit
from tooltap.daemon.web.page.session_head import STATUSES, name_of, project_of, status_of
from tooltap.normalizers.tools.registry import names_in
from tooltap.protocol.requests import SearchRequest

__all__ = ["FindQuery", "Found", "find"]

LOOKED_AT = 1_000
"""Newest sessions whose names are looked through."""
NEWEST = 50
"""Sessions that are listed before anything is typed; the script looks through them at once."""
SHOWN = 5
"""Of each part."""
ASKED = 20
"""Hits of a part that are asked for, since a file that was changed often is shown once."""
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
    """What the script compares with what is typed."""


class FoundEvent(NamedTuple):
    hit: ShownHit
    preview: str | None
    """Of a call: its file."""
    session: str
    """The name of its session."""


class Found(NamedTuple):
    sessions: list[NamedSession]
    files: list[FoundEvent]
    commands: list[FoundEvent]
    texts: list[FoundEvent]
    total: int
    """Of sessions that match; more than are listed."""
    problem: str
    """Why no event was found, as one sentence."""


async def find(services: Services, text: str) -> Found:
    """Raises `JournalError`."""
    rows = await services.journal.sessions(limit=LOOKED_AT if text.strip() else NEWEST, order="time")
    if not text.strip():
        return Found([_named(row) for row in rows], [], [], [], len(rows), "")
    words = text.casefold().split()
    matching = [one for one in map(_named, rows) if all(word in one.words_in for word in words)]
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
    """The newest change of each file in each session."""
    seen: dict[tuple[str, str | None], FoundEvent] = {}
    for one in found:
        seen.setdefault((one.hit.session, one.preview), one)
    return list(seen.values())


def _named(row: dict[str, Any]) -> NamedSession:
    status = status_of(row)
    name, folder, provider = name_of(row), project_of(row), str(row["provider"])
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
