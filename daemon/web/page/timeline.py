"""Pages of the timeline: the events of a page, and the section of it, which completes its calls and turns.

A page is read from the journal backwards or forwards until it is full. The journal applies the filter. It has no index
for the state of a call or a text, so this module searches for those, in as many bytes of events as one request may
read. A page states the range of `seq` that it has searched (`first` to `last`), wherever the events it found are. The
next page continues from the end of that range, so a search that finds nothing still makes progress.

The result of a call may be hidden by the filter, or be on a later page. The state of a call is nevertheless taken from
the journal, which knows the open calls and has the results of the others. The same holds for turns, whose dividers show
their number and how they ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import anyio
import msgspec

from tooltap.daemon.journal.interface import NEWEST, Journal, StoredEvent
from tooltap.daemon.sessions.stored import SessionEvents
from tooltap.daemon.show.shown import Fragment, card_key, key_of
from tooltap.daemon.web.page.fragments import Fragments, LevelOf
from tooltap.protocol.events import WORK, CallKey, EventHead
from tooltap.protocol.filters import MAX_VALUES, Filter

State: TypeAlias = Literal[
    "running", "awaiting-permission", "completed", "failed", "denied", "cancelled", "interrupted"
]
STATES: tuple[State, ...] = (
    *("running", "awaiting-permission", "completed", "failed"),
    *("denied", "cancelled", "interrupted"),
)
OPEN = ("running", "awaiting-permission")
CARDS = 50
"""Maximum events on one page of the timeline."""
CARDS_BYTES = 2_097_152
"""Maximum bytes of events on one page of the timeline; the first event is included whatever its size."""
SEARCH_BYTES = 16_777_216
"""Bytes of events searched for a text or a state before a page reports how far it has searched."""
CHUNK = 262_144
"""Bytes of events that one read of the journal returns."""

Test: TypeAlias = Callable[[StoredEvent], bool]


class Selection(NamedTuple):
    """The events that a reader wants to see."""

    wanted: Filter = Filter()
    states: tuple[State, ...] = ()
    """Calls in these states: open ones are calls without a result, the others are results with this status."""
    text: str = ""
    """A text in messages, inputs and outputs, case-insensitive."""

    @property
    def is_searched(self) -> bool:
        return bool(self.states or self.text)

    @property
    def narrowed(self) -> Filter:
        """The filter, restricted to the kinds of event that can have the wanted states."""
        if not self.states or self.wanted.kind is not None:
            return self.wanted
        kinds = ["tool-call", "permission-request"] if self.is_open else []
        if any(state not in OPEN for state in self.states):
            kinds.append("tool-result")
        return msgspec.structs.replace(self.wanted, kind=tuple(kinds))

    @property
    def is_open(self) -> bool:
        """Whether calls without a result are wanted."""
        return any(state in OPEN for state in self.states)


class Bounds(NamedTuple):
    """Limits of one page."""

    events: int
    bytes: int
    """Approximate limit for the JSON of the page's events."""
    search_bytes: int
    """Limit for the JSON that is searched for a text or a state."""


class Page(NamedTuple):
    events: list[StoredEvent]
    """Oldest first."""
    first: int
    last: int
    """The range of `seq` that was searched: no other event in it is in the selection."""
    older: bool
    newer: bool
    """Whether there may be more events on that side."""


async def older(journal: Journal, selection: Selection, bounds: Bounds, before: int = NEWEST) -> Page:
    """Return the last events with `seq` < `before`. Raises `JournalError`."""
    search = await _Search.begin(journal, selection, bounds)
    last = min(before - 1, journal.latest)
    reached = before
    while search.is_unfinished and reached > journal.oldest:
        found, reached = await search.journal.read_back(
            reached, search.wanted, limit=search.room, max_bytes=min(CHUNK, search.bytes_left)
        )
        if (cut := await search.take(found)) is not None:
            reached = cut
    if search.found:  # this or another daemon may have committed more events during the search
        last = max(last, search.found[0].seq)
    first = max(min(reached, last + 1), 1)
    return Page(search.found[::-1], first, last, reached > journal.oldest, before <= journal.latest)


async def newer(journal: Journal, selection: Selection, bounds: Bounds, after: int) -> Page:
    """Return the first events with `seq` > `after`. Raises `JournalError`."""
    search = await _Search.begin(journal, selection, bounds)
    latest = journal.latest
    reached = max(min(after, latest), journal.oldest - 1)
    while search.is_unfinished and reached < latest:
        found, reached = await search.journal.read(
            reached, search.wanted, up_to=latest, max_bytes=min(CHUNK, search.bytes_left)
        )
        if (cut := await search.take(found)) is not None:
            reached = cut
    return Page(search.found, after + 1, reached, after >= journal.oldest, reached < latest)


async def around(journal: Journal, selection: Selection, bounds: Bounds, seq: int) -> Page:
    """Return the page with this event in its middle. Raises `JournalError`."""
    half = bounds._replace(events=max(bounds.events // 2, 1))
    before = await older(journal, selection, half, seq + 1)
    after = await newer(journal, selection, half, before.last)
    return Page([*before.events, *after.events], before.first, after.last, before.older, after.newer)


async def between(journal: Journal, selection: Selection, bounds: Bounds, first: int, last: int) -> Page:
    """Return a former page again; only its beginning if it now has too many events. Raises `JournalError`."""
    page = await newer(journal, selection, bounds._replace(events=2 * bounds.events, bytes=2 * bounds.bytes), first - 1)
    events = [event for event in page.events if event.seq <= last]
    last = min(last, page.last)
    return Page(events, first, last, first > journal.oldest, last < journal.latest)


class Section(NamedTuple):
    """The fragments of a page's events, and of those that complete its calls and turns: what `nest` takes."""

    fragments: Sequence[Fragment]
    states: Mapping[str, str]
    """Key of a card -> state of its call or turn, where the end of that is not among the fragments."""
    parents: Mapping[str, str]
    """Key of a subagent -> key of the call that spawned it, where no fragment says so."""


async def section_of(
    journal: Journal,
    cache: Fragments,
    selection: Selection,
    page: Page,
    also: Sequence[StoredEvent],
    bounds: Bounds,
    level_of: LevelOf,
) -> Section:
    """`also`: later events that belong into cards of the page. Raises `JournalError`."""
    calls = await calls_of_page(journal, selection, page, also, bounds.search_bytes)
    turns = await turns_of(journal, page.events)
    events = sorted({*page.events, *calls.events, *turns.events, *also})
    events = [one for one in events if one.seq not in turns.withdrawn]
    parents = await parents_of(journal, events)
    return Section(await cache.of(events, level_of), {**calls.states, **turns.states}, parents)


class _Search:
    """Collects the events of a page, and counts what may still be read."""

    def __init__(
        self, journal: Journal | SessionEvents, selection: Selection, bounds: Bounds, opened: frozenset[int]
    ) -> None:
        self.journal = journal
        self.wanted = selection.narrowed
        self.found: list[StoredEvent] = []
        self._events = bounds.events
        self._is_searched = selection.is_searched
        self.bytes_left = bounds.search_bytes if selection.is_searched else bounds.bytes
        self._page_left = bounds.bytes
        self._tests = list(_tests(selection, opened))

    @classmethod
    async def begin(cls, journal: Journal, selection: Selection, bounds: Bounds) -> _Search:
        opened: frozenset[int] = frozenset()
        if selection.is_open:
            rows = await journal.open_calls()
            opened = frozenset(row["seq"] for row in [*rows["calls"], *rows["permissions"]] if _is_in(row, selection))
        sessions = selection.wanted.session
        return cls(
            journal if sessions is None else await SessionEvents.of(journal, sessions), selection, bounds, opened
        )

    @property
    def is_unfinished(self) -> bool:
        return len(self.found) < self._events and self.bytes_left > 0 and self._page_left > 0

    @property
    def room(self) -> int:
        """Maximum events that one read may return."""
        return 10_000 if self._is_searched else self._events - len(self.found)

    async def take(self, events: list[StoredEvent]) -> int | None:
        """Collect the wanted ones of these events. Return the `seq` of the last one if the page is full."""
        self.bytes_left -= sum(len(event.body) for event in events)
        wanted = await anyio.to_thread.run_sync(self._tested, events) if self._tests else events
        for event in wanted:
            self.found.append(event)
            self._page_left -= len(event.body)
            if len(self.found) == self._events or self._page_left <= 0:
                return event.seq
        return None

    def _tested(self, events: list[StoredEvent]) -> list[StoredEvent]:
        return [event for event in events if all(test(event) for test in self._tests)]


def _is_in(row: dict[str, Any], selection: Selection) -> bool:
    """`row`: an open call, or an open permission request."""
    return row.get("status", "awaiting-permission").replace("pending", "running") in selection.states


def _tests(selection: Selection, opened: frozenset[int]) -> Iterator[Test]:
    if selection.states:
        yield lambda event: event.seq in opened or _status(event) in selection.states
    if selection.text:
        needle = selection.text.casefold()
        encoded = msgspec.json.encode(selection.text)[1:-1].decode().casefold()
        yield lambda event: encoded in event.body.decode().casefold() and _contains(event, needle)


def live_test(selection: Selection) -> Test:
    """Return a test whether a live event is wanted. A live call has no result yet."""
    tests = list(_tests(selection, frozenset()))
    if not selection.is_open:
        return lambda event: all(test(event) for test in tests)
    text = list(_tests(selection._replace(states=()), frozenset()))
    return lambda event: all(test(event) for test in (tests if _status(event) else text))


def _status(event: StoredEvent) -> str:
    """Return the status of a result; empty for any other event."""
    head = event.head
    return head.status or "" if head.kind == "tool-result" else ""


SEARCHED_KEYS = frozenset(
    [
        *("text", "input", "output", "title", "preview", "name", "display", "progress", "reason", "code", "message"),
        *("questions", "options", "answers", "data", "model", "cwd"),
    ]
)
"""Keys of an event whose text is searched."""


def _contains(event: StoredEvent, needle: str) -> bool:
    fields: dict[str, Any] = msgspec.json.decode(event.body)
    return any(needle in text.casefold() for key in SEARCHED_KEYS & fields.keys() for text in _texts(fields[key]))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a payload, without the provider's raw object. Keys are texts, too: a patch's are paths."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            stack += one
        elif isinstance(one, dict):
            for key, inner in one.items():
                if key not in ("_raw", "_happy"):
                    yield key
                    stack.append(inner)


CALL_KINDS = ("tool-call", "tool-update", "tool-result", "permission-request", "permission-response")
PARTS = ("tool-update", "permission-request", "permission-response")
"""Kinds of events that stand for their call where the call itself is not shown."""
NEAR = 400
"""Maximum events about calls that are searched for the call of a result."""
NEAR_BYTES = 262_144
ENDED = "ended"
"""The state of a call that is not open and whose result was not found in as many bytes as may be searched."""
ANSWERED = "answered"
"""The state of a permission request that no longer waits."""


class States(NamedTuple):
    """States and results, from the journal, of calls whose results are not among the events given."""

    of_cards: dict[str, str]
    """Key of a card -> its state now. Those that the events themselves show are left out."""
    results: list[StoredEvent]
    """Results of the calls among the events."""


class Calls(NamedTuple):
    """Events and states that complete the calls of a page."""

    events: list[StoredEvent]
    states: Mapping[str, str]


async def calls_of_page(
    journal: Journal, selection: Selection, page: Page, also: Sequence[StoredEvent], search_bytes: int
) -> Calls:
    """Return the events that complete cards of the page, as far as the filter lets them through: results of its calls,
    and the calls of results that a search found. `also`: events shown with the page. Raises `JournalError`."""
    shown = [*page.events, *also]
    found = await _calls_of_results(journal, selection, page) if selection.is_searched else []
    states = await states_of(journal, [*shown, *found], search_bytes)
    wanted = selection.narrowed
    results = [one for one in states.results if wanted.matches(one.head)]
    return Calls([*found, *results], states.of_cards)


async def states_of(journal: Journal, events: Iterable[StoredEvent], search_bytes: int) -> States:
    """Find the states of the calls that are among the events or that the events are about, and the results of those
    that ended. Raises `JournalError`."""
    heads = [(one.seq, one.head) for one in events]
    ended = {head.key for _, head in heads if head.is_end and not head.synthetic}
    guessed = {head.key for _, head in heads if head.is_end and head.synthetic}
    shown = {head.key for _, head in heads if head.kind == "tool-call"}
    calls: dict[CallKey, int] = {}
    for seq, head in heads:
        if (head.kind == "tool-call" or head.kind in PARTS) and head.call_id is not None and head.key not in ended:
            calls.setdefault(head.key, seq)
    asked = [seq for seq, head in heads if head.kind == "permission-request"]
    if not (calls or asked):
        return States({}, [])
    opened = await _open_states(journal, {head.stream for _, head in heads})
    states = {key: opened.calls[key] for key in calls if key in opened.calls}
    sought = {key: seq for key, seq in calls.items() if key not in opened.calls}
    results = await _results(journal, sought, sought.keys() - guessed, search_bytes) if sought else []
    states |= {key: ENDED for key in sought if key not in guessed}
    for one in results:
        head = one.head
        if head.is_end and head.status is not None:
            states[head.key] = head.status
    of_cards = {key_of(*key): state for key, state in states.items()}
    of_cards |= {card_key(seq): ANSWERED for seq in asked if seq not in opened.asked}
    return States(of_cards, [one for one in results if one.head.key in shown])


async def parents_of(journal: Journal, events: Iterable[StoredEvent]) -> dict[str, str]:
    """Find the parent calls of subagents whose events do not state them, because they became known only later: key of a
    subagent -> key by the session of its call. Raises `JournalError`."""
    heads = [head for head in (one.head for one in events) if head.agent is not None and head.parent is None]
    unknown = {(head.stream, head.agent) for head in heads}
    found: dict[str, str] = {}
    for session in {head.session for head in heads}:
        for info in await journal.streams_of(session):
            if info.agent is not None and info.parent is not None and (info.stream, info.agent) in unknown:
                found[key_of(info.stream, info.agent)] = key_of(session, info.parent)
    return found


async def of_call(journal: Journal, event: StoredEvent) -> list[StoredEvent]:
    """Return the event and nearby events about the same call, oldest first. Raises `JournalError`."""
    head = event.head
    if head.call_id is None:
        return [event]
    wanted = Filter(stream=(head.stream,), kind=CALL_KINDS)
    before, _ = await journal.read_back(event.seq, wanted, limit=NEAR, max_bytes=NEAR_BYTES)
    behind, _ = await journal.read(event.seq, wanted, max_bytes=NEAR_BYTES)
    return [one for one in [*before[::-1], event, *behind] if one == event or one.head.key == head.key]


async def _calls_of_results(journal: Journal, selection: Selection, page: Page) -> list[StoredEvent]:
    """Return nearby calls of results that were found without them."""
    if selection.wanted.kind is not None and "tool-call" not in selection.wanted.kind:
        return []
    heads = [(one.seq, one.head) for one in page.events]
    calls = {head.key for _, head in heads if head.kind == "tool-call"}
    alone = {head.key: seq for seq, head in heads if head.kind == "tool-result" and head.key not in calls}
    if not alone:
        return []
    wanted = _of_streams(alone, "tool-call")
    before, _ = await journal.read_back(max(alone.values()), wanted, limit=NEAR, max_bytes=NEAR_BYTES)
    return [one for one in before if one.head.key in alone]


class _Open(NamedTuple):
    calls: dict[CallKey, str]
    """Call -> its state."""
    asked: frozenset[int]
    """`seq` of requests without an answer."""


async def _open_states(journal: Journal, streams: set[str]) -> _Open:
    """Return the open calls and requests, at least those of these streams."""
    rows = await journal.open_calls(stream=next(iter(streams)) if len(streams) == 1 else None)
    states = {(row["stream"], row["callId"]): str(row["status"]) for row in rows["calls"]}
    asked = {(row["stream"], row["callId"]) for row in rows["permissions"] if "callId" in row}
    return _Open(
        {key: "awaiting-permission" if key in asked else state for key, state in states.items()},
        frozenset(row["seq"] for row in rows["permissions"]),
    )


async def _results(
    journal: Journal, calls: Mapping[CallKey, int], needed: Iterable[CallKey], search_bytes: int
) -> list[StoredEvent]:
    """Read results from the first of these calls on, until each needed call has ended or `search_bytes` were read. The
    first chunk is read in any case: a result in it may correct an earlier one."""
    wanted = _of_streams(calls, "tool-result")
    left = set(needed)
    found: list[StoredEvent] = []
    reached, latest = min(calls.values()), journal.latest
    is_first = True
    while reached < latest and search_bytes > 0 and (left or is_first):
        is_first = False
        events, reached = await journal.read(reached, wanted, up_to=latest, max_bytes=min(NEAR_BYTES, search_bytes))
        for one in events:
            search_bytes -= len(one.body)
            head = one.head
            if head.key in calls and one.seq > calls[head.key]:
                found.append(one)
                if head.is_end:
                    left.discard(head.key)
    return found


def _of_streams(keys: Iterable[CallKey], kind: str) -> Filter:
    streams = sorted({stream for stream, _ in keys})
    return Filter(stream=tuple(streams) if len(streams) <= MAX_VALUES else None, kind=(kind,))


READ_BYTES = 262_144
"""Bytes of events that are read to find the end of a turn."""
OVER = "ended"
"""The state of a turn that is over but whose end was not found."""


class Turns(NamedTuple):
    events: list[StoredEvent]
    """Ends of turns that begin on the page, and their usage."""
    states: dict[str, str]
    """Key of a card -> state of its turn, where the end of that was not found."""
    withdrawn: frozenset[int]
    """`seq` of provisional ends after which their turn goes on."""


async def turns_of(journal: Journal, events: Iterable[StoredEvent]) -> Turns:
    """Find the ends and states that the turn dividers of a page show. Raises `JournalError`."""
    last: dict[str, tuple[int, EventHead]] = {}
    found: list[StoredEvent] = []
    states: dict[str, str] = {}
    open_at: dict[str, int] = {}
    for one in events:
        head = one.head
        if head.kind != "turn" or head.agent is not None:
            continue
        if head.state == "started":
            if head.stream in open_at:
                states[card_key(open_at[head.stream])] = OVER
            open_at[head.stream] = one.seq
            last[head.stream] = one.seq, head
        elif not head.provisional:
            open_at.pop(head.stream, None)
    withdrawn: set[int] = set()
    for stream, seq in open_at.items():
        rest = await _rest_of_turn(journal, stream, seq)
        found += rest.events
        withdrawn |= rest.withdrawn
        if not rest.is_ended and (rest.is_over or not await _is_open(journal, last[stream][1])):
            states[card_key(seq)] = OVER
    return Turns(found, states, frozenset(withdrawn))


class _Rest(NamedTuple):
    events: list[StoredEvent]
    is_ended: bool
    is_over: bool
    """True if the turn has ended, if another follows, or if too much comes after it to tell."""
    withdrawn: frozenset[int] = frozenset()
    """`seq` of its provisional end, if it goes on after that."""


async def _rest_of_turn(journal: Journal, stream: str, seq: int) -> _Rest:
    """Read the end of a turn, else its provisional end, and its usage: the latest event of each scope."""
    wanted = Filter(stream=(stream,), kind=("turn", "usage"))
    events, reached = await journal.read(seq, wanted, max_bytes=READ_BYTES)
    used: dict[str, StoredEvent] = {}
    settled: list[StoredEvent] = []
    for one in events:
        head = one.head
        if head.agent is not None:
            continue
        if head.kind == "usage":
            used[head.scope or ""] = one
        elif head.state == "started":
            return _Rest([*used.values(), *settled], is_ended=bool(settled), is_over=True)
        elif head.provisional:
            settled = [one]
        else:
            return _Rest([*used.values(), one], is_ended=True, is_over=True)
    is_over = reached < journal.latest
    for end in settled:
        if await _goes_on(journal, end):
            return _Rest([*used.values()], is_ended=False, is_over=is_over, withdrawn=frozenset({end.seq}))
    return _Rest([*used.values(), *settled], is_ended=bool(settled), is_over=is_over)


async def _goes_on(journal: Journal, end: StoredEvent) -> bool:
    """Return whether the main agent goes on in a turn after its provisional end."""
    wanted = Filter(stream=(end.head.stream,), kind=tuple(sorted(WORK)))
    events, _ = await journal.read(end.seq, wanted, max_bytes=READ_BYTES)
    return any(one.head.goes_on and one.head.turn == end.head.turn for one in events)


async def _is_open(journal: Journal, head: EventHead) -> bool:
    streams = await journal.streams_of(head.session)
    return any(one.stream == head.stream and one.state == "open" for one in streams)
