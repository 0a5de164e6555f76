"""The board: a column for each running session, with what it says and does, kept up to date. Above them is what waits
for a person, with the replies, as above the table of sessions.

The facts of a session are gathered from its row, its open calls and the last of its events. Events are read again only
when the session has newer ones. Each time, a few events are read, found by an index, however long the session is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, TypeAlias

import anyio
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from tooltap.daemon.formats import without_marks
from tooltap.daemon.journal.interface import NEWEST, Journal, StoredEvent
from tooltap.daemon.sessions.listing import (
    RUNNING,
    STATUSES,
    WITH_CONTENT,
    ProjectNames,
    RunningSession,
    find_running,
    name_of,
    status_of,
)
from tooltap.daemon.sessions.stored import SessionEvents
from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.asking import what_it_wants
from tooltap.daemon.show.blocks import short
from tooltap.daemon.show.shown import key_of
from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.sanitize import sanitize, visible
from tooltap.daemon.web.http.feed import Arrived, EventStream, message
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.addresses import event_url, session_url
from tooltap.daemon.web.page.asks import Asks, ask_url, waiting_sessions, waits_message
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, project_names, query_of, template
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import Message, ToolCall, ToolUpdate, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Subscribe
from tooltap.protocol.replies import Waiting
from tooltap.protocol.tools import TodoWriteInput

MOST = 24
"""Maximum number of columns of running sessions."""
LOOKED_AT = 200
"""Maximum number of running sessions from which the board chooses."""
MOST_ENDED = 6
RECENT_MS = 600_000
"""Milliseconds after its last event for which an ended session stays on the board."""
MOST_ASKS = 4
MOST_SUBAGENTS = 8
MESSAGES = 16
"""Number of newest messages searched for the main agent's latest one."""
LISTS = 4
"""Number of newest to-do lists searched for the main agent's."""
READ_BYTES = 131_072
WORDS = 700
"""Maximum code points of the main agent's latest message."""
ARGUMENT = 200


class Said(NamedTuple):
    text: str
    seq: int
    ts: int | None


class Plan(NamedTuple):
    done: int
    total: int
    step: str
    """The entry in progress, or else the next one; empty if all are done."""


class Call(NamedTuple):
    key: str
    name: str
    argument: str
    family: str
    seq: int
    since: int | None


class Subagent(NamedTuple):
    task: Call
    call: Call | None
    """The newest open call of the subagent."""


class Question(NamedTuple):
    """What waits for a person, in one line."""

    wants: str
    about: str
    url: str
    """Where it can be answered."""


class Latest(NamedTuple):
    """The main agent's latest message and to-do list."""

    said: Said | None = None
    plan: Plan | None = None


class Facts(NamedTuple):
    row: dict[str, Any]
    status: str
    since: int | None
    """Start of the current activity, or the end of the session, in milliseconds since the epoch."""
    ended: bool
    latest: Latest
    call: Call | None = None
    others: int = 0
    """Number of other running calls."""
    subagents: Sequence[Subagent] = ()
    more_subagents: int = 0
    asks: Sequence[Question] = ()


class Gathered(NamedTuple):
    columns: list[Facts]
    running: int
    waiting: int
    hidden: int
    """Number of running sessions without a column."""
    at_least: bool
    """True if there may be more running sessions than were read."""


class SessionsNow:
    """Gathers the facts of all running sessions, and caches what was read from their events."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._latest: dict[str, tuple[int, Latest]] = {}
        """Session -> its `lastSeq`, and what was read up to it."""

    async def gather(self, now: int, waiting_now: Sequence[Waiting]) -> Gathered:
        """`now`: milliseconds since the epoch; `waiting_now`: what waits in all sessions. Raises `JournalError`."""
        rows = await self._journal.sessions(limit=LOOKED_AT, order="time", wanted=WITH_CONTENT._replace(status=RUNNING))
        found = find_running(rows, await self._journal.open_calls())
        waiting = [one for one in found if one.status == "waiting"]
        running = [one for one in found if one.status == "running"]
        shown = sorted([*waiting, *running][:MOST], key=lambda one: _start(one.session), reverse=True)
        ended = await self._journal.sessions(
            limit=MOST_ENDED,
            order="time",
            wanted=WITH_CONTENT._replace(status=tuple(STATUSES.keys() - set(RUNNING)), since=now - RECENT_MS),
        )
        asks = _questions(waiting_now)
        columns = [await self._of(one, asks.get(one.session["session"], [])) for one in shown]
        for row in ended:
            latest = await self._latest_of(row)
            columns.append(Facts(row, status_of(row), row.get("lastTs"), True, latest))
        names = {one.row["session"] for one in columns}
        self._latest = {name: latest for name, latest in self._latest.items() if name in names}
        return Gathered(columns, len(running), len(waiting), len(found) - len(shown), len(rows) == LOOKED_AT)

    async def _of(self, one: RunningSession, asks: Sequence[Question]) -> Facts:
        asked = {(row["stream"], row.get("callId")) for row in one.asked}
        main = [row for row in one.calls if "agent" not in row and not _is_task(row)]
        runs = [_call(row) for row in main if (row["stream"], row["callId"]) not in asked]
        tasks = [row for row in one.calls if _is_task(row)]
        return Facts(
            one.session,
            one.status,
            one.since,
            False,
            await self._latest_of(one.session),
            runs[-1] if runs else None,
            max(len(runs) - 1, 0),
            [Subagent(_call(task), _current(task, one.calls)) for task in tasks[:MOST_SUBAGENTS]],
            max(len(tasks) - MOST_SUBAGENTS, 0),
            asks,
        )

    async def _latest_of(self, row: dict[str, Any]) -> Latest:
        name, last = row["session"], row["lastSeq"]
        known = self._latest.get(name)
        if known is None or known[0] != last:
            stored = SessionEvents(self._journal, [row])
            messages = await _newest(stored, Filter(kind=("message",)), MESSAGES)
            lists = Filter(kind=("tool-call", "tool-update"), tool=("TodoWrite",))
            latest = await anyio.to_thread.run_sync(_latest_in, messages, await _newest(stored, lists, LISTS))
            known = self._latest[name] = last, latest
        return known[1]


async def _newest(stored: SessionEvents, wanted: Filter, limit: int) -> list[StoredEvent]:
    found, _ = await stored.read_back(NEWEST, wanted, limit=limit, max_bytes=READ_BYTES)
    return found


def _questions(waiting: Sequence[Waiting]) -> dict[str, list[Question]]:
    """Return what certainly waits, by session, at most `MOST_ASKS` of each."""
    found: dict[str, list[Question]] = {}
    for at, one in enumerate(waiting):
        questions = found.setdefault(one.session, [])
        if one.certain and len(questions) < MOST_ASKS:
            wants, about = what_it_wants(one), short(one.call_title or one.preview or "", ARGUMENT)
            questions.append(Question(f"{wants[0].upper()}{wants[1:]}", about, ask_url(one, at)))
    return found


def _latest_in(messages: list[StoredEvent], lists: list[StoredEvent]) -> Latest:
    """Return the main agent's latest message and to-do list. Both arguments are newest first."""
    return Latest(
        next((said for one in messages if (said := _said(one)) is not None), None),
        next((plan for one in lists if (plan := _plan(one)) is not None), None),
    )


def _said(stored: StoredEvent) -> Said | None:
    event = decode(stored.body)
    if not isinstance(event, Message) or event.role != "assistant" or event.agent is not None:
        return None
    text = without_marks(event.text).strip()
    return Said(text if len(text) <= WORDS else f"{text[:WORDS]}…", stored.seq, event.ts) if text else None


def _plan(stored: StoredEvent) -> Plan | None:
    event = decode(stored.body)
    if not isinstance(event, ToolCall | ToolUpdate) or event.agent is not None or event.input is None:
        return None
    todos = TodoWriteInput.from_payload(event.input).todos or []
    if not todos:
        return None
    done = sum(one.status == "completed" for one in todos)
    left = [one for one in todos if one.status not in ("completed", "cancelled")]
    now = next((one for one in left if one.status == "in_progress"), left[0] if left else None)
    return Plan(done, len(todos), "" if now is None else short(now.content or "", ARGUMENT))


def _call(row: dict[str, Any]) -> Call:
    """`row`: an open call."""
    name = str(row.get("name") or "?")
    argument = short(str(row.get("preview") or row.get("title") or ""), ARGUMENT)
    key = key_of(row["stream"], str(row["callId"]))
    return Call(key, short(name, ARGUMENT), argument, family_of(name), row["seq"], row.get("ts"))


def _is_task(row: dict[str, Any]) -> bool:
    return row.get("name") == "Task"


def _current(task: dict[str, Any], calls: Sequence[dict[str, Any]]) -> Call | None:
    """Return the newest open call of the subagent that this call has spawned."""
    inside = [one for one in calls if task["callId"] in (one.get("parent"), one.get("agent"))]
    return _call(inside[-1]) if inside else None


def _start(row: dict[str, Any]) -> tuple[int, int]:
    return row.get("firstTs") or 0, row["firstSeq"]


STALE_MS = 5_000
"""Maximum age of the columns, in milliseconds, while no event comes: sessions also end by the passing of time."""


class Column(NamedTuple):
    id: str
    """Id of the HTML element, a hash of the session's id, which may have any characters."""
    version: str
    html: Markup
    call: str | None
    """Key of the running call whose output the column shows."""


class Columns(NamedTuple):
    columns: list[Column]
    summary: Markup
    """Numbers of running, waiting and ended sessions, in words."""
    asks: Markup
    """What waits for a person, with the replies."""
    waiting: Sequence[Waiting]


class Board:
    """The columns as HTML, rendered once for all readers.

    A column has a version, which changes with its content: a browser says which versions it has, and gets the others.
    Nothing in it depends on the time of rendering; the script counts from `data-since`.
    """

    def __init__(self, services: Services, asks: Asks, clock: Clock = wall_clock) -> None:
        self._journal = services.journal
        self._asks = asks
        self._sessions = SessionsNow(services.journal)
        self._clock = clock
        self._lock = anyio.Lock()
        self._made: tuple[tuple[int, int], Columns] | None = None
        """Cache key (the journal's latest `seq`, the time in units of `STALE_MS`) and the columns."""

    async def columns(self) -> Columns:
        """Return the columns as they are now. Raises `WebError` and `JournalError`."""
        async with self._lock:
            now = self._clock()
            key = self._journal.latest, now // STALE_MS
            if self._made is None or self._made[0] != key:
                waiting = await self._asks.waiting()
                gathered = await self._sessions.gather(now, waiting)
                names = await project_names(self._journal)
                asks = await self._asks.html(waiting, names)
                columns, summary = await anyio.to_thread.run_sync(_rendered, gathered, names)
                self._made = key, Columns(columns, summary, asks, waiting)
            return self._made[1]


def _rendered(gathered: Gathered, names: ProjectNames) -> tuple[list[Column], Markup]:
    columns = [_column(one, names) for one in gathered.columns]
    summary = template(
        "board_summary.html",
        gathered=gathered,
        ended=sum(facts.ended for facts in gathered.columns),
        minutes=RECENT_MS // 60_000,
    )
    return columns, summary


def _column(facts: Facts, names: ProjectNames) -> Column:
    row = facts.row
    digest = blake2b(row["session"].encode("utf-8", "replace"), digest_size=6).hexdigest()
    tokens = [row.get("inputTokens"), row.get("outputTokens")]
    body = template(
        "board_column.html",
        facts=facts,
        one=row,
        id=digest,
        title=name_of(row),
        project=names.of(row),
        words=STATUSES.get(facts.status, facts.status),
        address=session_url(row["session"]),
        errors=session_url(row["session"], state="failed"),
        event_url=event_url,
        context=_context(row),
        tokens=None if tokens == [None, None] else sum(one or 0 for one in tokens),
    )
    version = blake2b(f"{facts.status} {body}".encode("utf-8", "replace"), digest_size=8).hexdigest()
    html = template("board_section.html", id=digest, version=version, status=facts.status, ended=facts.ended, body=body)
    return Column(f"column-{digest}", version, html, facts.call and facts.call.key)


def _context(row: dict[str, Any]) -> int | None:
    """Return how full the context window is, in percent."""
    used, size = row.get("contextUsed"), row.get("contextSize")
    return None if used is None or not size or used < 0 or size < 0 else min(round(100 * used / size), 100)


PERIOD = 1.0
"""Seconds between two updates of the board."""
MOST_CALLS = 64
"""Maximum number of running calls whose output is remembered."""
TAIL = 4_096
"""Maximum code points of a call's output that are remembered."""
LINES = 5
LINE = 200
"""Maximum code points of a line."""


class Tail:
    """The last `TAIL` code points of a call's output."""

    def __init__(self) -> None:
        self._text = ""
        self._ends: dict[str, int] = {}
        """Output stream -> code points received."""

    def add(self, stream: str, text: str, offset: int) -> None:
        end = self._ends.get(stream, 0)
        self._ends[stream] = max(end, offset + len(text))
        self._text = (self._text + text[max(end - offset, 0) :])[-TAIL:]

    def lines(self) -> str:
        """Return the last lines as a terminal shows them."""
        shown = sanitize(final_screen(self._text)).rstrip().split("\n")[-LINES:]
        return "\n".join(line if len(line) <= LINE else f"{line[: LINE - 1]}…" for line in shown)


class LiveBoard:
    """The live board of one reader: server-sent events, at most one a second for each column.

        column   {id, html}: a column that the browser does not have in this version
        columns  {order, summary}: the ids of all columns in their order, and how many agents there are, in words
        output   {call, text}: the last lines that a running call has printed
        asks     HTML of what waits for a person; `waits` has how many: see `asks.py`

    The output of a running call is not journaled, so only what it prints after the reader connects is known.
    `has`: the versions of the columns that the browser shows.
    """

    def __init__(self, services: Services, board: Board, has: Sequence[str]) -> None:
        self._services = services
        self._board = board
        self._has = has
        self._versions: dict[str, str] | None = None
        """Id of a column -> the version that the browser has; None before the first update."""
        self._order: list[str] | None = None
        self._summary = ""
        self._sent: dict[bytes, str] = {}
        """Name of a message -> its data that was sent last, of `asks` and `waits`."""
        self._tails: OrderedDict[str, Tail] = OrderedDict()
        self._changed: set[str] = set()
        """Keys of calls with output that the browser does not have yet."""
        self._looked_at = -PERIOD

    def stream(self) -> EventStream:
        """Return the response. Raises `WebError`."""
        frame = Subscribe(after="now", filter=Filter(kind=("tool-update",)), partials=True)
        return EventStream(self._services.feeds, frame, self._note, self._news)

    async def _note(self, arrived: Arrived) -> bytes:
        """Remember what calls print. Everything else the board reads from the journal."""
        partials = [event for event, seq in zip(arrived.events, arrived.seqs, strict=True) if seq is None]
        if partials:
            await anyio.to_thread.run_sync(self._remember, partials)
        return b""

    def _remember(self, partials: list[Produced | StoredEvent]) -> None:
        for head in (one.head for one in partials):
            if (chunk := head.chunk) is not None:
                key = key_of(*head.key)
                tail = self._tails.setdefault(key, Tail())
                self._tails.move_to_end(key)
                tail.add(chunk.stream, chunk.text, chunk.offset)
                self._changed.add(key)
        while len(self._tails) > MOST_CALLS:
            self._changed.discard(self._tails.popitem(last=False)[0])

    async def _news(self) -> bytes:
        now = anyio.current_time()
        if now - self._looked_at < PERIOD:
            return b""
        self._looked_at = now
        columns = await self._board.columns()
        out = [*self._of_columns(columns), *self._of_asks(columns)]
        return b"".join(out) + await anyio.to_thread.run_sync(self._of_outputs, columns)

    def _of_asks(self, columns: Columns) -> list[bytes]:
        stated = {b"asks": str(columns.asks), b"waits": waits_message(columns.waiting)}
        out = [message(name, data) for name, data in stated.items() if data != self._sent.get(name)]
        self._sent = stated
        return out

    def _of_columns(self, columns: Columns) -> list[bytes]:
        if self._versions is None:
            self._versions = {one.id: one.version for one in columns.columns if one.version in self._has}
        fresh = [one for one in columns.columns if self._versions.get(one.id) != one.version]
        self._versions = {one.id: one.version for one in columns.columns}
        out = [_message(b"column", {"id": one.id, "html": str(one.html)}) for one in fresh]
        order = [one.id for one in columns.columns]
        if (order, columns.summary) != (self._order, self._summary):
            self._order, self._summary = order, columns.summary
            out.append(_message(b"columns", {"order": order, "summary": str(columns.summary)}))
        return out

    def _of_outputs(self, columns: Columns) -> bytes:
        shown = self._changed & {one.call for one in columns.columns if one.call is not None}
        self._changed -= shown
        return b"".join(
            _message(b"output", {"call": visible(key), "text": self._tails[key].lines()}) for key in sorted(shown)
        )


def _message(name: bytes, value: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(value))


MOST_VERSIONS = 64
Version: TypeAlias = Annotated[str, msgspec.Meta(max_length=32)]


class BoardQuery(msgspec.Struct, kw_only=True, frozen=True):
    """Query of the board's page, which has no filters."""


class LiveBoardQuery(msgspec.Struct, kw_only=True, frozen=True):
    after: str = "now"
    """Sent by every reader of live events, and ignored here: the board always shows the present."""
    has: Annotated[tuple[Version, ...], msgspec.Meta(max_length=MOST_VERSIONS)] = ()
    """The versions of the columns that the browser shows."""


def routes(services: Services, asks: Asks) -> list[BaseRoute]:
    board = Board(services, asks)

    async def page(request: Request) -> Response:
        query_of(request, BoardQuery)
        columns = await board.columns()
        return await html(
            "board.html",
            board=columns,
            waits=waiting_sessions(columns.waiting),
            preferences=preferences_of(request),
            tools=sorted(TOOL_CARDS),
        )

    async def live(request: Request) -> ASGIApp:
        return LiveBoard(services, board, query_of(request, LiveBoardQuery).has).stream()

    return [PageRoute("/board", page), Route("/board/live", live)]
