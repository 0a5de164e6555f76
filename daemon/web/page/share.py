"""The page from which a session, or a part of it, is downloaded: what is to be in the file, and what is masked there.

The form is a GET, so the address says what the reader chose, and the links to the files are for exactly that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.export.redaction import Example, Redaction, masked_title
from tooltap.daemon.export.source import JournalSource, Part
from tooltap.daemon.formats import counted
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.listing import name_of
from tooltap.daemon.show.timeline import TurnOfSession, Turns
from tooltap.daemon.web.http.errors import WebError
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.passes import with_pass
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url
from tooltap.daemon.web.page.download import CUT, FORMS, Form, bodies_for, download
from tooltap.daemon.web.page.routing import Endpoint, PageRoute, html, preferences_of, query_of
from tooltap.daemon.web.page.session_head import row_of
from tooltap.daemon.web.page.timeline import SEARCH_BYTES
from tooltap.protocol.events import AnyEvent, Event, Message, ToolCall, decode
from tooltap.protocol.filters import Filter

READ = 262_144
TURNS = 2_000
"""Turns to choose from."""

Number = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class ShareQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What is to be in the file. A part is what is in all the ranges given."""

    from_turn: Number | None = None
    to_turn: Number | None = None
    from_: Number | None = msgspec.field(default=None, name="from")
    to: Number | None = None
    """A range of `seq`."""
    content: Literal["all", "conversation"] = "all"
    redact: Literal["yes", "no"] = "yes"

    @property
    def given(self) -> dict[str, Any]:
        """What is not as usual, for an address."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if value not in (None, "all", "yes")}


class _Masked(NamedTuple):
    kind: str
    times: int
    examples: list[Example]


class _File(NamedTuple):
    name: str
    url: str
    about: str


class _Preview(NamedTuple):
    """What the file will have."""

    events: int
    counts: list[str]
    """How many turns, messages, calls and errors."""
    first: AnyEvent | None
    last: AnyEvent | None
    masked: list[_Masked]
    left_out: int
    """Images and long outputs that are too large."""
    remark: str


ABOUT: dict[Form, str] = {
    "html": "One page that opens in any browser, without scripts or network. It includes images and long outputs.",
    "md": "Text for an issue or a chat. Inputs and outputs are shortened; images are named.",
}


def share_url(session: str) -> str:
    """Return the address of the page from which a session is downloaded."""
    return f"{session_url(session)}/share"


def export_url(session: str, form: Form, query: ShareQuery) -> str:
    """Return the address of a file."""
    given = query.given
    return f"{session_url(session)}/export.{form}{'?' + urlencode(given) if given else ''}"


async def known_row_of(journal: Journal, session: str) -> dict[str, Any]:
    """Return the row of a session. Raises `WebError` if the journal has none, and `JournalError`."""
    row = await row_of(journal, session)
    if row is None:
        raise WebError(404, "not-found", f"there is no session {session[:200]!r}")
    return row


async def part_of(journal: Journal, session: str, query: ShareQuery, search_bytes: int) -> Part:
    """Return the range of events. Raises `JournalError`."""
    first, last = query.from_ or 0, query.to
    if query.from_turn is not None or query.to_turn is not None:
        return _within(await _turns_of(journal, session, search_bytes), query)
    return Part(first, last, query.content)


async def share_page(
    journal: Journal, session: str, query: ShareQuery, search_bytes: int, admitting: Callable[[str], str]
) -> dict[str, Any]:
    """Return the values for the template. `admitting`: returns an address with what lets a browser open it. Raises
    `WebError` and `JournalError`."""
    row = await known_row_of(journal, session)
    turns = await _turns_of(journal, session, search_bytes)
    part = _within(turns, query)
    return {
        "session": session,
        "share_url": share_url(session),
        "title": name_of(row),
        "query": query,
        "turns": turns,
        "preview": await _preview(journal, session, name_of(row), part),
        "files": [_File(name, admitting(export_url(session, form, query)), ABOUT[form]) for form, _, name in FORMS],
    }


def _within(turns: list[TurnOfSession], query: ShareQuery) -> Part:
    first, last = query.from_ or 0, query.to
    if query.from_turn is not None and query.from_turn > 1:
        first = max(first, _beginning(turns, query.from_turn))
    if query.to_turn is not None and query.to_turn < len(turns):
        end = _beginning(turns, query.to_turn + 1) - 1
        last = end if last is None else min(last, end)
    return Part(first, last, query.content)


def _beginning(turns: list[TurnOfSession], number: int) -> int:
    return turns[number - 1].first if number <= len(turns) else 2**63 - 1


async def _turns_of(journal: Journal, session: str, search_bytes: int) -> list[TurnOfSession]:
    """Return the turns of a session, of a very long one the first."""
    wanted = Filter(session=(session,), kind=("message", "turn"))
    turns, reached = Turns(), journal.oldest - 1
    while reached < journal.latest and search_bytes > 0 and len(turns.all) < TURNS:
        events, reached = await journal.read(reached, wanted, up_to=journal.latest, max_bytes=READ)
        search_bytes -= sum(len(one.body) for one in events)

        def add(events: list[Any] = events) -> None:
            for one in events:
                event = decode(one.body)
                event.seq = one.seq
                turns.add(event)

        await anyio.to_thread.run_sync(add)
    return turns.all


async def _preview(journal: Journal, session: str, title: str, part: Part) -> _Preview:
    """Read what an HTML file would have, which has more than one in Markdown."""
    bodies, redaction = bodies_for("html"), Redaction()
    masked_title(title, redaction.mask)
    source = JournalSource(journal, session, part, bodies, redaction)
    kinds: Counter[type[Event]] = Counter()
    turns = Turns()
    first = last = None
    async for batch in source:
        for event, _ in batch:
            kinds[type(event)] += 1
            turns.add(event)
        first, last = first or batch[0][0], batch[-1][0]
    masked = [_Masked(kind, times, redaction.examples[kind]) for kind, times in redaction.counts.most_common()]
    remark = CUT if source.is_cut else ""
    counts = (
        (len(turns.all), "turn"),
        (kinds[Message], "message"),
        (kinds[ToolCall], "call"),
        (sum(turn.failed for turn in turns.all), "error"),
    )
    shown = [counted(number, word) for number, word in counts if number]
    return _Preview(kinds.total(), shown, first, last, masked, bodies.left_out, remark)


def routes(services: Services, logins: Logins) -> list[BaseRoute]:
    journal, search_bytes = services.journal, SEARCH_BYTES

    def admitting(url: str) -> str:
        return with_pass(url, logins.lasting_pass(url))

    async def share(request: Request) -> Response:
        query = query_of(request, ShareQuery)
        values = await share_page(journal, request.path_params["session"], query, search_bytes, admitting)
        return await html("share.html", preferences=preferences_of(request), **values)

    def file(form: Form) -> Endpoint:
        async def answer(request: Request) -> Response:
            query = query_of(request, ShareQuery)
            session = request.path_params["session"]
            title = name_of(await known_row_of(journal, session))
            part = await part_of(journal, session, query, search_bytes)
            return await download(journal, session, title, form, part, Redaction(masks=query.redact == "yes"))

        return answer

    files = [PageRoute(f"/sessions/{{session:path}}/export.{form}", file(form)) for form, _, _ in FORMS]
    return [PageRoute("/sessions/{session:path}/share", share), *files]
