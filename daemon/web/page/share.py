"""The page from which a session, or a part of it, is downloaded, and the download.

The page says what the file will have, and what is masked in it. Its form is a GET, so the address says what the
reader chose, and the links to the files are for exactly that. A file is rendered while it is sent, and is never shown
as a page of our origin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from tooltap.daemon.export.anonymity import Anonymizer, ReplacedName
from tooltap.daemon.export.html import ExportedPage
from tooltap.daemon.export.markdown import MarkdownPage
from tooltap.daemon.export.redaction import Example, Redaction, masked_title
from tooltap.daemon.export.source import (
    Batch,
    Bodies,
    ExportedPart,
    Exporter,
    JournalSource,
    MissingRange,
    learn_names,
)
from tooltap.daemon.formats import counted
from tooltap.daemon.journal.interface import NEWEST, Journal, JournalError
from tooltap.daemon.sessions.listing import name_of
from tooltap.daemon.sessions.stored import SessionEvents, present_id
from tooltap.daemon.show.timeline import TurnOfSession, Turns
from tooltap.daemon.taps.stream_ids import stream_name
from tooltap.daemon.web.http.guard import SANDBOX
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.requests import WebError
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import session_url, share_url
from tooltap.daemon.web.page.routing import Endpoint, PageRoute, html, known_row_of, preferences_of, query_of
from tooltap.daemon.web.page.timeline import SEARCH_BYTES
from tooltap.protocol.events import AnyEvent, Event, Message, ToolCall, decode
from tooltap.protocol.filters import Filter

Form: TypeAlias = Literal["html", "md"]
FORMS: tuple[tuple[Form, str, str], ...] = (
    ("html", "text/html; charset=utf-8", "HTML"),
    ("md", "text/markdown; charset=utf-8", "Markdown"),
)
"""Extension, MIME type and name of each format."""
BODY = 1_048_576
BODIES = 33_554_432
"""Maximum bytes of one output body in the file (`BODY`), and of all."""
CUT = "The session is longer than this file: `tooltap export` writes all of it."
READ = 262_144
"""Bytes of events that one read of the journal returns."""
TURNS = 2_000
"""Maximum number of turns to choose from."""
NAMES = 200
"""Maximum number of replaced names that the page lists."""

Number = Annotated[int, msgspec.Meta(ge=1, le=NEWEST)]


class ShareQuery(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Content of the exported file. It has the events that are in all the ranges given."""

    from_turn: Number | None = None
    to_turn: Number | None = None
    from_: Number | None = msgspec.field(default=None, name="from")
    to: Number | None = None
    """`from` to `to`: a range of `seq`."""
    content: Literal["all", "conversation"] = "all"
    redact: Literal["yes", "no"] = "yes"
    anonymous: Literal["yes", "no"] = "no"

    @property
    def given(self) -> dict[str, Any]:
        """Values that are not the defaults, for the query of an address."""
        defaults = msgspec.to_builtins(ShareQuery())
        return {name: value for name, value in msgspec.to_builtins(self).items() if value != defaults[name]}


class _Masked(NamedTuple):
    kind: str
    times: int
    examples: list[Example]


class _File(NamedTuple):
    name: str
    url: str
    about: str


class _Preview(NamedTuple):
    """A summary of what the file will contain."""

    events: int
    counts: list[str]
    """Number of turns, messages, calls and errors, in words."""
    first: AnyEvent | None
    last: AnyEvent | None
    masked: list[_Masked]
    replaced: list[ReplacedName]
    """Names, at most `NAMES`."""
    left_out: int
    """Number of images and long outputs that are too large."""
    remark: str


ABOUT: dict[Form, str] = {
    "html": "One page that opens in any browser, without scripts or network. It includes images and long outputs.",
    "md": "Text for an issue or a chat. Inputs and outputs are shortened; images are named.",
}


def export_url(session: str, form: Form, query: ShareQuery) -> str:
    """Return the address of an exported file."""
    given = query.given
    return f"{session_url(session)}/export.{form}{'?' + urlencode(given) if given else ''}"


def routes(services: Services, logins: Logins) -> list[BaseRoute]:
    journal = services.journal

    async def redaction_of(session: str, query: ShareQuery) -> Redaction:
        names = Anonymizer.of_this_machine() if query.anonymous == "yes" else None
        if names is not None:
            await learn_names(journal, session, names)
        return Redaction(masks=query.redact == "yes", names=names)

    async def share(request: Request) -> Response:
        session = await present_id(journal, request.path_params["session"])
        query = query_of(request, ShareQuery)
        title = name_of(await known_row_of(journal, session))
        turns = await _turns_of(journal, session)
        links = [(form, name, logins.signed_url(export_url(session, form, query))) for form, _, name in FORMS]
        return await html(
            "share.html",
            preferences=preferences_of(request),
            session=session,
            share_url=share_url(session),
            title=title,
            query=query,
            turns=turns,
            preview=await _preview(journal, session, title, _within(turns, query), await redaction_of(session, query)),
            files=[_File(name, url, ABOUT[form]) for form, name, url in links],
        )

    def file(form: Form) -> Endpoint:
        async def answer(request: Request) -> Response:
            session = await present_id(journal, request.path_params["session"])
            query = query_of(request, ShareQuery)
            title = name_of(await known_row_of(journal, session))
            has_turns = query.from_turn is not None or query.to_turn is not None
            part = _within(await _turns_of(journal, session) if has_turns else [], query)
            return await download(journal, session, title, form, part, await redaction_of(session, query))

        return answer

    files = [PageRoute(f"/sessions/{{session:any}}/export.{form}", file(form)) for form, _, _ in FORMS]
    return [PageRoute("/sessions/{session:any}/share", share), *files]


def _within(turns: list[TurnOfSession], query: ShareQuery) -> ExportedPart:
    """Return the range of events that the query asks for."""
    first, last = query.from_ or 0, query.to
    if query.from_turn is not None and query.from_turn > 1:
        first = max(first, _beginning(turns, query.from_turn))
    if query.to_turn is not None and query.to_turn < len(turns):
        end = _beginning(turns, query.to_turn + 1) - 1
        last = end if last is None else min(last, end)
    return ExportedPart(first, last, query.content)


def _beginning(turns: list[TurnOfSession], number: int) -> int:
    return turns[number - 1].first if number <= len(turns) else NEWEST


async def _turns_of(journal: Journal, session: str) -> list[TurnOfSession]:
    """Return the turns of a session; of a very long one, the first. Raises `JournalError`."""
    left = SEARCH_BYTES
    stored, wanted = await SessionEvents.of(journal, (session,)), Filter(kind=("message", "turn"))
    turns, reached = Turns(), journal.oldest - 1
    while reached < journal.latest and left > 0 and len(turns.all) < TURNS:
        events, reached = await stored.read(reached, wanted, up_to=journal.latest, max_bytes=READ)
        left -= sum(len(one.body) for one in events)

        def add(events: list[Any] = events) -> None:
            for one in events:
                event = decode(one.body)
                event.seq = one.seq
                turns.add(event)

        await anyio.to_thread.run_sync(add)
    return turns.all


async def _preview(journal: Journal, session: str, title: str, part: ExportedPart, redaction: Redaction) -> _Preview:
    """Summarize the HTML file, which contains more than the Markdown file."""
    bodies = bodies_for("html")
    masked_title(title, redaction.mask, redaction.names)
    source = JournalSource(journal, session, part, bodies, redaction)
    kinds: Counter[type[Event]] = Counter()
    turns = Turns()
    first = last = None
    async for batch in source:
        events = [one[0] for one in batch if not isinstance(one, MissingRange)]
        for event in events:
            kinds[type(event)] += 1
            turns.add(event)
        if events:
            first, last = first or events[0], events[-1]
    masked = [_Masked(kind, times, redaction.examples[kind]) for kind, times in redaction.counts.most_common()]
    remark = CUT if source.is_cut else ""
    counts = (
        (len(turns.all), "turn"),
        (kinds[Message], "message"),
        (kinds[ToolCall], "call"),
        (sum(turn.failed for turn in turns.all), "error"),
    )
    shown = [counted(number, word) for number, word in counts if number]
    replaced = [] if redaction.names is None else redaction.names.replaced[:NAMES]
    return _Preview(kinds.total(), shown, first, last, masked, replaced, bodies.left_out, remark)


def bodies_for(form: Form) -> Bodies:
    """Return which output bodies a file of this form has: Markdown has none."""
    return Bodies(BODY, BODIES) if form == "html" else Bodies(0, 0)


async def download(
    journal: Journal, session: str, title: str, form: Form, part: ExportedPart, redaction: Redaction
) -> Response:
    """Stream the file. An error on the way ends the connection, so that no browser keeps half a file as a whole one.
    Raises `WebError` if there is nothing to send, and `JournalError`."""
    bodies = bodies_for(form)
    masked = masked_title(title, redaction.mask, redaction.names)
    page: Exporter
    page = MarkdownPage(masked, bodies=bodies) if form == "md" else ExportedPage(masked, level="summary", bodies=bodies)
    source = JournalSource(journal, session, part, bodies, redaction)
    batches = aiter(source)
    first = await anext(batches, None)
    if first is None:
        if source.is_damaged:
            raise JournalError("events are damaged in the journal, and no other one of the session is in this part")
        raise WebError(404, "not-found", "no event of the session is in this part")

    def rendered(batch: Batch) -> str:
        return "".join([page.add_gap(one) if isinstance(one, MissingRange) else page.add(*one) for one in batch])

    async def written() -> AsyncIterator[str]:
        yield await anyio.to_thread.run_sync(rendered, first)
        async for batch in batches:
            yield await anyio.to_thread.run_sync(rendered, batch)
        remarks = [*redaction.remarks(), *([CUT] if source.is_cut else [])]
        yield await anyio.to_thread.run_sync(lambda: "".join(page.end(*remarks)))

    name = quote(f"{stream_name(f'{session}.{form}')}.{form}", safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": SANDBOX,
    }
    media_type = next(kind for ending, kind, _ in FORMS if ending == form)
    return StreamingResponse(written(), 200, headers, media_type)
