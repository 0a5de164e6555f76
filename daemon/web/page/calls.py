"""Completes the calls of a page: with their results, and with their states where the results are not shown.

A filter hides results from their calls, and results come on later pages. The state of a call is nevertheless that of
the journal: it knows which calls are open, and of the others it has the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.show.shown import card_key, key_of
from tooltap.daemon.web.page.timeline import Page, Selection
from tooltap.protocol.filters import MAX_VALUES, Filter
from tooltap.protocol.heads import CallKey

CALL_KINDS = ("tool-call", "tool-update", "tool-result", "permission-request", "permission-response")
PARTS = ("tool-update", "permission-request", "permission-response")
"""Events about a call that, where the call is not shown, describe it at that time."""
NEAR = 400
"""How many calls are searched for the call of a result."""
NEAR_BYTES = 262_144
ENDED = "ended"
"""The state of a call that is not open and whose result was not found in as many bytes as may be searched."""
ANSWERED = "answered"
"""The state of a request for permission that does not wait any more."""


class States(NamedTuple):
    """What the journal knows of calls whose results are not among the events given."""

    of_cards: dict[str, str]
    """Key of a card -> its state now. Those that the events themselves show are left out."""
    results: list[StoredEvent]
    """Of the calls among the events."""


class Calls(NamedTuple):
    """What a page needs besides its own events."""

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
    """Find the states of the calls among the events, or that the events are about, and the results of those that ended.
    Raises `JournalError`."""
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
    """Find the calls of subagents whose events do not state them, because they were known only later: key of a subagent
    -> key by the session of its call. Raises `JournalError`."""
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
    """The state of each."""
    asked: frozenset[int]
    """`seq` of requests without an answer."""


async def _open_states(journal: Journal, streams: set[str]) -> _Open:
    """Return what is open in these streams, and in others."""
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
    """Read on from the first of these calls until each needed one has ended, or as many bytes were read. What comes
    soon behind is read in any case: it may correct a result."""
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
