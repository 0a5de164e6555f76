"""The dividers of a page: the number of each turn that begins on it, and what is known of those that end later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.daemon.show.shown import Fragment, card_key
from tooltap.protocol.filters import Filter
from tooltap.protocol.heads import EventHead

READ_BYTES = 262_144
"""Bytes of events that are read to count the turns before or after a page, or to find the end of one."""
MOST = 2_000
"""Most events that are read to count turns."""
OVER = "ended"
"""The state of a turn that is over, and whose end is not known."""


class Turns(NamedTuple):
    events: list[StoredEvent]
    """Ends of turns that begin on the page, and what they used."""
    states: dict[str, str]
    """Key of a card -> the state of its turn, of those whose end was not found."""
    numbers: dict[int, int]
    """`seq` of a turn's beginning -> which turn of its session it is."""


async def turns_of(journal: Journal, events: Iterable[StoredEvent]) -> Turns:
    """Find what the dividers of a page say. Raises `JournalError`."""
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
        else:
            open_at.pop(head.stream, None)
    for stream, seq in open_at.items():
        rest = await _rest_of_turn(journal, stream, seq)
        found += rest.events
        if not rest.is_ended and (rest.is_over or not await _is_open(journal, last[stream][1])):
            states[card_key(seq)] = OVER
    return Turns(found, states, await turn_numbers(journal, events))


async def turn_numbers(journal: Journal, events: Iterable[StoredEvent]) -> dict[int, int]:
    """Return the numbers of the turns that begin among the events, unless too many come before and after them. Raises
    `JournalError`."""
    begins: dict[str, list[int]] = {}
    for one in events:
        head = one.head
        if _is_begin(head):
            begins.setdefault(head.session, []).append(one.seq)
    numbers: dict[int, int] = {}
    for session, seqs in begins.items():
        first = await _number(journal, session, seqs[0])
        if first is not None:
            numbers |= {seq: first + at for at, seq in enumerate(seqs)}
    return numbers


def numbered(fragments: Iterable[Fragment], numbers: dict[int, int]) -> list[Fragment]:
    """Name turns by their numbers."""
    return [one._replace(title=f"Turn {numbers[one.seq]:,}") if one.seq in numbers else one for one in fragments]


class _Rest(NamedTuple):
    events: list[StoredEvent]
    is_ended: bool
    is_over: bool
    """The turn is not the last, or too much comes after it to say."""


async def _rest_of_turn(journal: Journal, stream: str, seq: int) -> _Rest:
    """Read what a turn used, and its end: of usage the latest of each scope."""
    wanted = Filter(stream=(stream,), kind=("turn", "usage"))
    events, reached = await journal.read(seq, wanted, max_bytes=READ_BYTES)
    used: dict[str, StoredEvent] = {}
    for one in events:
        head = one.head
        if head.agent is not None:
            continue
        if head.kind == "usage":
            used[head.scope or ""] = one
        elif head.state == "started":
            return _Rest([*used.values()], is_ended=False, is_over=True)
        else:
            return _Rest([*used.values(), one], is_ended=True, is_over=True)
    return _Rest([*used.values()], is_ended=False, is_over=reached < journal.latest)


async def _is_open(journal: Journal, head: EventHead) -> bool:
    streams = await journal.streams_of(head.session)
    return any(one.stream == head.stream and one.state == "open" for one in streams)


async def _number(journal: Journal, session: str, seq: int) -> int | None:
    """Count from the end, of which the journal knows the number, or from the beginning."""
    wanted = Filter(session=(session,), kind=("turn",))
    after, reached = await journal.read(seq - 1, wanted, max_bytes=READ_BYTES)
    if reached >= journal.latest:
        rows = await journal.sessions(limit=1, wanted=SessionFilter(session=(session,)))
        total = rows[0].get("turns") if rows else None
        number = None if total is None else total - _begins(after) + 1
        return number if number is not None and number > 0 else None
    before, reached = await journal.read_back(seq, wanted, limit=MOST, max_bytes=READ_BYTES)
    return _begins(before) + 1 if reached <= journal.oldest else None


def _begins(events: Iterable[StoredEvent]) -> int:
    return sum(_is_begin(one.head) for one in events)


def _is_begin(head: EventHead) -> bool:
    """Whether a turn of the main agent begins."""
    return head.kind == "turn" and head.agent is None and head.state == "started"
