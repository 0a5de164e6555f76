"""Reading events, forwards and backwards: each is verified, and what is damaged is left out and named.

Nearly always many rows are fetched at once, and verified by one call (`_verified`). Where anything about them is wrong
(a checksum, the order, a number that is missing, an error of SQLite) the part is read again carefully: row by row,
without an index, over every page that cannot be read (`_carefully`). What is then missing is damaged.

Above `expired` an event is missing if its number is; below it, retention may have deleted it.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import lt
from typing import NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.gaps import Gaps
from tooltap.daemon.journal.interface import CorruptError, StoredEvent
from tooltap.daemon.journal.sqlite.checksums import EVENT_CHECK, wrong_events
from tooltap.daemon.journal.sqlite.damage import is_unreadable
from tooltap.daemon.journal.sqlite.query import query_of
from tooltap.daemon.journal.sqlite.tables import get_meta
from tooltap.protocol.events import decode
from tooltap.protocol.filters import ALL_EVENTS, Filter, meta_of

__all__ = ["EventsRead", "Known", "read", "read_back", "read_event"]

WINDOW = 20_000
"""Events that one statement scans where no index finds what the filter wants."""
CAREFUL_WINDOW = 5_000
"""Numbers that are read carefully at once."""
STEPS = 20_000
"""Numbers that are tried one by one for the end of what cannot be read; after that, the step doubles."""
FIRST_ROWS, MOST_ROWS = 32, 512
"""Rows fetched at once: few until it is known how long they are."""

_ROW = f"SELECT seq, body, {EVENT_CHECK} FROM events"
Ranges: TypeAlias = Sequence[tuple[int, int]]


class EventsRead(NamedTuple):
    events: list[StoredEvent]
    searched: int
    damaged: Ranges = ()
    """Numbers of events that are damaged, among those that were searched."""


class Known(NamedTuple):
    """What is known of the file."""

    gaps: Ranges = ()
    """Numbers that are not read again, as they are damaged."""
    suspect: bool = False
    """An index or a name is damaged: a filter would not find all that it wants."""


def read(
    connection: sqlite3.Connection, after: int, up_to: int, wanted: Filter, max_bytes: int, known: Known
) -> EventsRead:
    """Events with `after` < `seq` <= `up_to`, about `max_bytes`; and the `seq` up to which the journal was searched."""
    if wanted.matches_all or not known.suspect:
        try:
            found = _verified(connection, after, up_to, wanted, max_bytes, known.gaps)
        except Exception as error:
            if not is_unreadable(error):
                raise
            found = None
        if found is not None:
            return found
    damaged: list[tuple[int, int]] = []
    events: list[StoredEvent] = []
    while after < up_to and not events:
        part = _carefully(connection, after, min(up_to, after + CAREFUL_WINDOW), wanted, max_bytes, known.gaps)
        events, after = part.events, part.searched
        damaged += part.damaged
    return EventsRead(events, after, damaged)


def read_back(
    connection: sqlite3.Connection,
    before: int,
    down_to: int,
    wanted: Filter,
    limit: int,
    max_bytes: int,
    known: Known,
) -> EventsRead:
    """Events with `down_to` <= `seq` < `before`, newest first; and the `seq` down to which the journal was searched."""
    if wanted.matches_all or not known.suspect:
        try:
            found = _verified_back(connection, before, down_to, wanted, limit, max_bytes, known.gaps)
        except Exception as error:
            if not is_unreadable(error):
                raise
            found = None
        if found is not None:
            return found
    damaged: list[tuple[int, int]] = []
    events: list[StoredEvent] = []
    while before > down_to and not events:
        start = max(down_to, before - CAREFUL_WINDOW)
        part = _carefully(connection, start - 1, before - 1, wanted, 2**62, known.gaps)
        events = _cut(part.events[::-1], max_bytes)[:limit]
        before = events[-1].seq if events and len(events) < len(part.events) else start
        damaged += [(max(first, before), last) for first, last in part.damaged if last >= before]
    return EventsRead(events, before, damaged)


def read_event(connection: sqlite3.Connection, seq: int, known: Known) -> StoredEvent | None:
    """Raises `CorruptError`."""
    try:
        row = connection.execute(f"{_ROW} WHERE seq=?", (seq,)).fetchone()
        if row is not None and not wrong_events(row[1:2], row[2:]):
            return StoredEvent(*row[:2])
        if row is None and (not 0 < seq < _number(connection, "next_seq") or seq <= _number(connection, "expired")):
            return None
    except Exception as error:
        if not is_unreadable(error):
            raise
    found = _carefully(connection, seq - 1, seq, ALL_EVENTS, 2**62, known.gaps)
    if not found.events:
        raise CorruptError(f"event {seq} is damaged in the journal")
    return found.events[0]


def _number(connection: sqlite3.Connection, name: str) -> int:
    return int(get_meta(connection, name) or 0)


# -- verified -----------------------------------------------------------------------------------------------------


def _verified(
    connection: sqlite3.Connection, after: int, up_to: int, wanted: Filter, max_bytes: int, gaps: Ranges
) -> EventsRead | None:
    """None if anything is wrong."""
    query = query_of(connection, wanted)
    if query is None:
        return EventsRead([], max(after, up_to))
    sql = query.sql("seq>:after AND seq<=:end", "ASC", EVENT_CHECK)
    window = WINDOW if query.scans else up_to
    events: list[StoredEvent] = []
    begin = after
    while after < up_to and not events:
        end = min(up_to, after + window)
        cursor = connection.execute(sql, {**query.values, "after": after, "end": end})
        after, last, room, rows = end, after, max_bytes, FIRST_ROWS
        while fetched := cursor.fetchmany(rows):
            seqs, bodies, checks = zip(*fetched, strict=True)
            if wrong_events(bodies, checks) or seqs[0] <= last or not all(map(lt, seqs, seqs[1:])):
                cursor.close()
                return None
            last = seqs[-1]
            sizes = list(accumulate(map(len, bodies)))
            count = len(sizes)
            if sizes[-1] >= room:
                count = bisect_left(sizes, room) + 1
                after = seqs[count - 1]
            events += map(StoredEvent._make, zip(seqs[:count], bodies, strict=False))
            if sizes[-1] >= room:
                break
            room -= sizes[-1]
            rows = max(1, min(MOST_ROWS, room * count // (sizes[-1] or 1)))
        cursor.close()
    is_short = wanted.matches_all and len(events) < after - begin
    if is_short and _unexplained(connection, begin, [one.seq for one in events], after, gaps):
        return None
    return EventsRead(events, after)


def _cut(events: list[StoredEvent], max_bytes: int) -> list[StoredEvent]:
    """The first of them: as many as reach `max_bytes`."""
    sizes = list(accumulate([len(one.body) for one in events]))
    return events if not sizes or sizes[-1] < max_bytes else events[: bisect_left(sizes, max_bytes) + 1]


def _verified_back(
    connection: sqlite3.Connection,
    before: int,
    down_to: int,
    wanted: Filter,
    limit: int,
    max_bytes: int,
    gaps: Ranges,
) -> EventsRead | None:
    """None if anything is wrong."""
    query = query_of(connection, wanted)
    if query is None:
        return EventsRead([], min(before, down_to))
    sql = query.sql("seq>=:start AND seq<:before", "DESC", EVENT_CHECK)
    window = WINDOW if query.scans else before
    events: list[StoredEvent] = []
    begin = before
    while before > down_to and not events:
        start = max(down_to, before - window)
        size, last = 0, before
        cursor = connection.execute(sql, {**query.values, "start": start, "before": before})
        before = start
        for seq, body, check in cursor:
            if seq >= last or wrong_events((body,), (check,)):
                cursor.close()
                return None
            last = seq
            events.append(StoredEvent(seq, body))
            size += len(body)
            if len(events) == limit or size >= max_bytes:
                before = seq
                break
        cursor.close()
    if wanted.matches_all and _unexplained(connection, before - 1, [one.seq for one in events[::-1]], begin - 1, gaps):
        return None
    return EventsRead(events, before)


def _unexplained(connection: sqlite3.Connection, after: int, seqs: list[int], end: int, gaps: Ranges) -> bool:
    """Whether an event between `after` and `end` is missing that retention has not deleted, and no gap has."""
    if len(seqs) == end - after:
        return False
    # Asked after the events: what a deletion has just taken from them is not above it.
    first = max(after, _number(connection, "expired")) + 1
    missing = end - first + 1 - (len(seqs) - bisect_left(seqs, first))
    within = [(max(one, first), min(other, end)) for one, other in gaps]
    return missing > sum(last - one + 1 for one, last in within if last >= one)


# -- carefully ----------------------------------------------------------------------------------------------------


def _carefully(
    connection: sqlite3.Connection, after: int, end: int, wanted: Filter, max_bytes: int, gaps: Ranges
) -> EventsRead:
    """Each intact event from `after` to `end`, whatever is wrong with the pages between them."""
    damaged = Gaps()
    found: list[StoredEvent] = []
    for first, last in _outside(gaps, after + 1, end):
        _scan(connection, first, last, found, damaged)
    kept = [one for one in found if _matches(wanted, one.body)]
    cut = _cut(kept, max_bytes)
    if cut and (len(cut) < len(kept) or sum(len(one.body) for one in cut) >= max_bytes):
        end = cut[-1].seq
    for first, last in gaps:
        damaged.add(first, last)
    return EventsRead(cut, end, damaged.within(after + 1, end))


def _outside(gaps: Ranges, first: int, last: int) -> list[tuple[int, int]]:
    """What is between the gaps."""
    parts = []
    for start, end in gaps:
        if first < start:
            parts.append((first, min(start - 1, last)))
        first = max(first, end + 1)
    return [*parts, (first, last)] if first <= last else parts


def _matches(wanted: Filter, body: bytes) -> bool:
    if wanted.matches_all:
        return True
    try:
        return wanted.matches(meta_of(decode(body)))
    except msgspec.MsgspecError:  # of a kind that this version does not know; nothing is left out for that
        return True


def _scan(connection: sqlite3.Connection, first: int, last: int, found: list[StoredEvent], damaged: Gaps) -> None:
    """Find the intact events from `first` to `last`, and what is damaged between them."""
    reached, unreadable, tries, seqs = first - 1, 0, 0, []
    at = reached
    while at < last:
        broken = False
        try:
            cursor = connection.execute(f"{_ROW} WHERE seq>? AND seq<=? ORDER BY seq", (at, last))
            for seq, body, check in cursor:
                if wrong_events((body,), (check,)):
                    broken = True
                    damaged.add(max(seq, reached + 1), max(seq, reached + 1))
                    continue
                if seq <= reached:
                    continue
                if unreadable:
                    damaged.add(unreadable, max(seq - 1, unreadable))
                    unreadable = 0
                found.append(StoredEvent(seq, body))
                seqs.append(seq)
                reached, tries = seq, 0
            cursor.close()
        except Exception as error:
            if not is_unreadable(error):
                raise
            broken = True
            unreadable = unreadable or reached + 1
        at = max(at, reached)
        if not broken and (at >= last or not _missing(connection, at + 1, last)):
            break
        tries += 1
        at += 1 if tries <= STEPS else 1 << min(tries - STEPS, 40)
    if unreadable and unreadable <= last:
        damaged.add(unreadable, last)
    expired = _expired(connection)
    numbers = [max(first - 1, expired), *(seq for seq in seqs if seq > expired), last + 1]
    for one, other in pairwise(numbers):
        if other - one > 1:
            damaged.add(one + 1, other - 1)


def _missing(connection: sqlite3.Connection, first: int, last: int) -> bool:
    return last > max(first - 1, _expired(connection))


def _expired(connection: sqlite3.Connection) -> int:
    try:
        return _number(connection, "expired")
    except Exception as error:
        if not is_unreadable(error):
            raise
        return 0
