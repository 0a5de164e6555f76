"""Which events make a page of the timeline: the journal is read backwards (or onwards) until there are enough.

A filter is the journal's business; what it has no index for, the state of a call and a text, is looked for here, in
as many events as one request may look at. A page says from where to where it has looked, wherever the last event it
found stands, so that the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import anyio
import msgspec

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.web.page.heads import CallKey, head_of
from tooltap.protocol.filters import MAX_VALUES, Filter

__all__ = [
    "NEWEST",
    "STATES",
    "Asked",
    "Bounds",
    "Page",
    "State",
    "around",
    "between",
    "live_test",
    "missing",
    "newer",
    "of_call",
    "older",
]

State: TypeAlias = Literal[
    "running", "awaiting-permission", "completed", "failed", "denied", "cancelled", "interrupted"
]
STATES: tuple[State, ...] = (
    *("running", "awaiting-permission", "completed", "failed"),
    *("denied", "cancelled", "interrupted"),
)
OPEN = ("running", "awaiting-permission")
OF_A_CALL = ("tool-call", "tool-update", "tool-result", "permission-request", "permission-response")
CHUNK = 262_144
NEAR = 400
"""Calls among which that of a result is looked for."""
NEAR_BYTES = 262_144
NEWEST = 2**63 - 1

Test: TypeAlias = Callable[[StoredEvent], bool]


class Asked(NamedTuple):
    wanted: Filter = Filter()
    states: tuple[State, ...] = ()
    """Of calls: those that have no result, and results with this status."""
    text: str = ""
    """In what is said, asked, answered and printed, whatever its case."""

    @property
    def is_searched(self) -> bool:
        return bool(self.states or self.text)

    @property
    def narrowed(self) -> Filter:
        """The filter, with what the states say of the kind."""
        if not self.states or self.wanted.kind is not None:
            return self.wanted
        kinds = ["tool-call", "permission-request"] if self.is_open else []
        if any(state not in OPEN for state in self.states):
            kinds.append("tool-result")
        return msgspec.structs.replace(self.wanted, kind=tuple(kinds))

    @property
    def is_open(self) -> bool:
        """Whether calls are wanted that have no result."""
        return any(state in OPEN for state in self.states)


class Bounds(NamedTuple):
    """Of one page."""

    events: int
    bytes: int
    """About as many of the events' JSON."""
    search_bytes: int
    """So much is looked through for a text or a state."""


class Page(NamedTuple):
    events: list[StoredEvent]
    """Oldest first."""
    first: int
    last: int
    """From `first` to `last` there is nothing else that was asked for."""
    older: bool
    newer: bool
    """Whether there may be more."""


async def older(journal: Journal, asked: Asked, bounds: Bounds, before: int = NEWEST) -> Page:
    """The last events with `seq` < `before`. Raises `JournalError`."""
    search = await _Search.begin(journal, asked, bounds)
    last = min(before - 1, journal.latest)
    looked = before
    while search.goes_on and looked > journal.oldest:
        found, looked = await journal.read_back(
            looked, search.wanted, limit=search.room, max_bytes=min(CHUNK, search.bytes_left)
        )
        if (cut := await search.take(found)) is not None:
            looked = cut
    if search.found:  # events may have come meanwhile, and from other daemons
        last = max(last, search.found[0].seq)
    first = max(min(looked, last + 1), 1)
    return Page(search.found[::-1], first, last, looked > journal.oldest, before <= journal.latest)


async def newer(journal: Journal, asked: Asked, bounds: Bounds, after: int) -> Page:
    """The first events with `seq` > `after`. Raises `JournalError`."""
    search = await _Search.begin(journal, asked, bounds)
    latest = journal.latest
    looked = max(min(after, latest), journal.oldest - 1)
    while search.goes_on and looked < latest:
        found, looked = await journal.read(looked, search.wanted, up_to=latest, max_bytes=min(CHUNK, search.bytes_left))
        if (cut := await search.take(found)) is not None:
            looked = cut
    return Page(search.found, after + 1, looked, after >= journal.oldest, looked < latest)


async def around(journal: Journal, asked: Asked, bounds: Bounds, seq: int) -> Page:
    """The page with this event in its middle. Raises `JournalError`."""
    half = bounds._replace(events=max(bounds.events // 2, 1))
    before = await older(journal, asked, half, seq + 1)
    after = await newer(journal, asked, half, before.last)
    return Page([*before.events, *after.events], before.first, after.last, before.older, after.newer)


async def between(journal: Journal, asked: Asked, bounds: Bounds, first: int, last: int) -> Page:
    """What was a page before, again; or its beginning, where more has come into it than a page has. Raises
    `JournalError`."""
    page = await newer(journal, asked, bounds._replace(events=2 * bounds.events, bytes=2 * bounds.bytes), first - 1)
    events = [event for event in page.events if event.seq <= last]
    last = min(last, page.last)
    return Page(events, first, last, first > journal.oldest, last < journal.latest)


async def missing(journal: Journal, asked: Asked, page: Page) -> list[StoredEvent]:
    """What makes cards of the page whole, as far as it is near: results that come behind it, of its calls; and where a
    result was found by its text or state, its call. Raises `JournalError`."""
    kinds = asked.narrowed.kind
    if kinds is not None and "tool-result" not in kinds:
        return []
    heads = [(event.seq, head_of(event)) for event in page.events]
    calls = {one.key: seq for seq, one in heads if one.kind == "tool-call"}
    results = {one.key: seq for seq, one in heads if one.kind == "tool-result"}
    found: list[StoredEvent] = []
    if (open_calls := calls.keys() - results.keys()) and page.newer:
        wanted = _of_streams(open_calls, "tool-result")
        behind, _ = await journal.read(page.last, wanted, max_bytes=NEAR_BYTES)
        found += [event for event in behind if head_of(event).key in open_calls]
    are_calls_wanted = asked.wanted.kind is None or "tool-call" in asked.wanted.kind
    if (alone := results.keys() - calls.keys()) and asked.is_searched and are_calls_wanted:
        wanted = _of_streams(alone, "tool-call")
        last = max(results[key] for key in alone)
        before, _ = await journal.read_back(last, wanted, limit=NEAR, max_bytes=NEAR_BYTES)
        found += [event for event in before if head_of(event).key in alone]
    return found


async def of_call(journal: Journal, event: StoredEvent) -> list[StoredEvent]:
    """The event, and what there is near it about the same call, oldest first. Raises `JournalError`."""
    head = head_of(event)
    if head.call_id is None:
        return [event]
    wanted = Filter(stream=(head.stream,), kind=OF_A_CALL)
    before, _ = await journal.read_back(event.seq, wanted, limit=NEAR, max_bytes=NEAR_BYTES)
    behind, _ = await journal.read(event.seq, wanted, max_bytes=NEAR_BYTES)
    return [one for one in [*before[::-1], event, *behind] if one == event or head_of(one).key == head.key]


def _of_streams(keys: Iterable[CallKey], kind: str) -> Filter:
    streams = sorted({stream for stream, _ in keys})
    return Filter(stream=tuple(streams[:MAX_VALUES]), kind=(kind,))


class _Search:
    """What has been found for a page, and what may still be."""

    def __init__(self, asked: Asked, bounds: Bounds, opened: frozenset[int]) -> None:
        self.wanted = asked.narrowed
        self.found: list[StoredEvent] = []
        self._events = bounds.events
        self._is_searched = asked.is_searched
        self.bytes_left = bounds.search_bytes if asked.is_searched else bounds.bytes
        self._page_left = bounds.bytes
        self._tests = list(_tests(asked, opened))

    @classmethod
    async def begin(cls, journal: Journal, asked: Asked, bounds: Bounds) -> _Search:
        opened: frozenset[int] = frozenset()
        if asked.is_open:
            rows = await journal.open_calls()
            opened = frozenset(row["seq"] for row in [*rows["calls"], *rows["permissions"]] if _is_in(row, asked))
        return cls(asked, bounds, opened)

    @property
    def goes_on(self) -> bool:
        return len(self.found) < self._events and self.bytes_left > 0 and self._page_left > 0

    @property
    def room(self) -> int:
        """Events that may be read at once."""
        return 10_000 if self._is_searched else self._events - len(self.found)

    async def take(self, events: list[StoredEvent]) -> int | None:
        """Keeps those that are wanted; gives the `seq` of the last one where there is no room for more."""
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


def _is_in(row: dict[str, Any], asked: Asked) -> bool:
    """`row`: an open call, or a permission that is asked for."""
    return row.get("status", "awaiting-permission").replace("pending", "running") in asked.states


def _tests(asked: Asked, opened: frozenset[int]) -> Iterator[Test]:
    if asked.states:
        yield lambda event: event.seq in opened or _status(event) in asked.states
    if asked.text:
        needle = asked.text.casefold()
        encoded = msgspec.json.encode(asked.text)[1:-1].decode().casefold()
        yield lambda event: encoded in event.body.decode().casefold() and _says(event, needle)


def live_test(asked: Asked) -> Test:
    """Whether an event that comes now is wanted; what is called now has no result."""
    tests = list(_tests(asked, frozenset()))
    if not asked.is_open:
        return lambda event: all(test(event) for test in tests)
    text = list(_tests(asked._replace(states=()), frozenset()))
    return lambda event: all(test(event) for test in (tests if _status(event) else text))


class _Status(msgspec.Struct):
    kind: str
    status: str = ""


_status_decoder = msgspec.json.Decoder(_Status)


def _status(event: StoredEvent) -> str:
    """Of a result; else nothing."""
    read = _status_decoder.decode(event.body)
    return read.status if read.kind == "tool-result" else ""


SAID = frozenset(
    [
        *("text", "input", "output", "title", "preview", "name", "display", "progress", "reason", "code", "message"),
        *("questions", "options", "answers", "data", "model", "cwd"),
    ]
)
"""Keys of an event whose text is looked at."""


def _says(event: StoredEvent, needle: str) -> bool:
    fields: dict[str, Any] = msgspec.json.decode(event.body)
    return any(needle in text.casefold() for key in SAID & fields.keys() for text in _texts(fields[key]))


def _texts(value: Any) -> Iterator[str]:
    """Of a payload, without the provider's own object; an object's keys are names as well (a patch's are paths)."""
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
