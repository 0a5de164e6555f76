"""Selects the events of a page of the timeline, reading the journal backwards or forwards until the page is full.

The journal applies the filter. It has no index for the state of a call or a text, so this module searches for those,
in as many bytes of events as one request may read. A page states the range of `seq` that it has searched (`first` to
`last`), wherever the events it found are. The next page continues from the end of that range, so a search that finds
nothing still makes progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import anyio
import msgspec

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.protocol.filters import Filter

State: TypeAlias = Literal[
    "running", "awaiting-permission", "completed", "failed", "denied", "cancelled", "interrupted"
]
STATES: tuple[State, ...] = (
    *("running", "awaiting-permission", "completed", "failed"),
    *("denied", "cancelled", "interrupted"),
)
OPEN = ("running", "awaiting-permission")
CARDS = 50
"""Events on one page of the timeline."""
CARDS_BYTES = 2_097_152
"""Bytes of one page of the timeline, which has at least one event."""
SEARCH_BYTES = 16_777_216
"""Bytes of events searched for a text or a state before a page reports how far it has searched."""
CHUNK = 262_144
"""Bytes of events that one read of the journal returns."""
NEWEST = 2**63 - 1

Test: TypeAlias = Callable[[StoredEvent], bool]


class Selection(NamedTuple):
    """Which events a reader wants to see."""

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
        found, reached = await journal.read_back(
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
        found, reached = await journal.read(
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


class _Search:
    """Collects the events of a page, and counts what may still be read."""

    def __init__(self, selection: Selection, bounds: Bounds, opened: frozenset[int]) -> None:
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
        return cls(selection, bounds, opened)

    @property
    def is_unfinished(self) -> bool:
        return len(self.found) < self._events and self.bytes_left > 0 and self._page_left > 0

    @property
    def room(self) -> int:
        """How many events one read may return."""
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
    """Return the status of a result; of any other event nothing."""
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
