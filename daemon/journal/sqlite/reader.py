"""Reading events, open calls and output bodies: each function is one short query on its own connection, in a
reader thread.

No function leaves a SQLite cursor open when it returns: an open cursor pins the write-ahead log, which then grows
without bound.

Filters. A filter is resolved to the sources and labels that match it (`tables.py`). A range is the part of an index for
one source, one label or both, ordered by `seq`; SQLite merges the ranges as it reads them. So the cost of the first
events does not depend on the length of the journal. For a filter with too many ranges, or none, all events are scanned.

Damage. Each event is verified; damaged ones are left out and reported. On the fast path, many rows are fetched at once
and verified by one call (`_verified`). If anything about them is wrong (a checksum, the order, a missing `seq`, an
error of SQLite), the range is read again on the slow path: row by row, without an index, skipping unreadable pages
(`_carefully`). Events that are still missing are damaged. Above the last expired `seq` no `seq` may be missing; below
it, retention may have deleted events.
"""

from __future__ import annotations

import sqlite3
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, compress, pairwise
from operator import lt
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import MAX_SLICE, CorruptError, Gaps, OutputSlice, StoredEvent, whole_lines
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt, is_unreadable, read_again
from tooltap.daemon.journal.sqlite.tables import EVENT_CHECK, get_meta, piece_sum, row_sum, unpacked, wrong_events
from tooltap.daemon.sessions.projection import CALL, PERMISSION
from tooltap.protocol.events import decode
from tooltap.protocol.filters import ALL_EVENTS, Filter, meta_of

MAX_RANGES = 100
"""Most ranges of a query. SQLite allows 500; each adds about 7 µs to a read."""

SOURCE = ("session", "stream")
LABEL = ("kind", "provider")


class Query(NamedTuple):
    """A filter translated to SQL."""

    ranges: Sequence[str] = ()
    """Disjoint conditions answered by an index: an event matches at most one. Empty: all events are scanned."""
    rest: Sequence[str] = ()
    """Further conditions that an event must match. They are not in the `WHERE` clause, but a fourth column: a damaged
    column must not make an event one that is not wanted before it is verified."""
    values: Mapping[str, str] = {}
    """The parameters of `rest`."""

    @property
    def scans(self) -> bool:
        """Whether the query is a full scan, which may read any number of events that do not match."""
        return bool(self.rest) and not self.ranges

    def sql(self, bounds: str, order: str, check: str) -> str:
        """The SQL statement. `bounds`: condition on `seq`. `check`: expression of the CRC-32 that a body must have."""
        columns = ", ".join(["seq", "body", check, *([" AND ".join(self.rest)] if self.rest else [])])
        selects = [
            f"SELECT {columns} FROM events WHERE {' AND '.join([*one, bounds])}"
            for one in ([[condition] for condition in self.ranges] or [[]])
        ]
        return f"{' UNION ALL '.join(selects)} ORDER BY seq {order}"


def query_of(connection: sqlite3.Connection, wanted: Filter) -> Query | None:
    """Translate a filter. None if no event matches."""
    values: dict[str, str] = {}

    def among(key: str, column: str) -> str:
        named = {f"{key}{number}": name for number, name in enumerate(getattr(wanted, key))}
        values.update(named)
        return f"{column} IN ({','.join(f':{one}' for one in named)})"

    def ids_of(table: str, conditions: Sequence[str]) -> tuple[list[int] | None, str]:
        """The matching ids, or None if there are no conditions or too many ids match; and a condition on the column of
        `events`."""
        if not conditions:
            return None, ""
        select = f"SELECT id FROM {table} WHERE {' AND '.join(conditions)}"
        found = connection.execute(f"{select} LIMIT {MAX_RANGES + 1}", values).fetchall()
        return (None if len(found) > MAX_RANGES else [one for (one,) in found]), f"{table[:-1]} IN ({select})"

    of_source = [among(key, key) for key in SOURCE if getattr(wanted, key) is not None]
    of_label = [among(key, key) for key in LABEL if getattr(wanted, key) is not None]
    if wanted.tool is not None:
        of_label.append(f"({among('tool', 'tool')} OR {among('tool', 'raw_tool')})")
    sources, source_condition = ids_of("sources", of_source)
    labels, label_condition = ids_of("labels", of_label)
    if sources == [] or labels == []:
        return None
    agents = "" if wanted.agent is None else among("agent", "agent")
    if labels is not None and min(labels) < 0:
        labels = None  # some are not in the index
    by_label = [f"label={one} AND label>0" for one in labels or ()]
    by_source = [f"source={one}" for one in sources or ()]
    if by_label and by_source and len(by_label) * len(by_source) <= MAX_RANGES:
        ranges, rest = [f"{source} AND {label}" for source in by_source for label in by_label], [agents]
    elif by_source:
        # With +, no index of labels is considered: the range is in the order of `seq`.
        ranges, rest = by_source, [label_condition and f"+{label_condition}", agents]
    elif by_label:
        ranges, rest = by_label, [source_condition, agents]
    else:
        ranges, rest = [], [source_condition, label_condition, agents]
    return Query(ranges, [one for one in rest if one], values)


# -- events ----------------------------------------------------------------------------------------------------------

WINDOW = 20_000
"""Events scanned by one statement when no index can be used."""
CAREFUL_WINDOW = 5_000
"""Range of `seq` read at once on the slow path."""
STEPS = 20_000
"""Unreadable `seq` skipped one by one in search of the next readable event; after that many, the step doubles."""
FIRST_ROWS, MOST_ROWS = 32, 512
"""Rows fetched at once: few until their typical length is known."""

_ROW = f"SELECT seq, body, {EVENT_CHECK} FROM events"
Ranges: TypeAlias = Sequence[tuple[int, int]]


class EventsRead(NamedTuple):
    """The result of one read."""

    events: list[StoredEvent]
    searched: int
    damaged: Ranges = ()
    """Ranges of `seq` of damaged events in the searched range."""


class KnownDamage(NamedTuple):
    """Known damage in the file."""

    gaps: Ranges = ()
    """Ranges of `seq` known to be damaged, which are not read again."""
    suspect: bool = False
    """True if an index or a name is damaged: a filtered query could miss events."""


def read(
    connection: sqlite3.Connection, after: int, up_to: int, wanted: Filter, max_bytes: int, known: KnownDamage
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
    known: KnownDamage,
) -> EventsRead:
    """Events with `down_to` <= `seq` < `before`, newest first, at most `limit` and about `max_bytes`; and the `seq`
    down to which the journal was searched."""
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


def read_event(connection: sqlite3.Connection, seq: int, known: KnownDamage) -> StoredEvent | None:
    """The event with this `seq`; None if there is none, or it has expired. Raises `CorruptError`."""
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
    """Read on the fast path; None if any event is damaged or missing."""
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
            seqs, bodies, checks, *is_wanted = zip(*fetched, strict=True)
            if wrong_events(bodies, checks) or seqs[0] <= last or not all(map(lt, seqs, seqs[1:])):
                cursor.close()
                return None
            last = seqs[-1]
            if is_wanted:
                rows = max(1, min(MOST_ROWS, max_bytes * len(seqs) // (sum(map(len, bodies)) or 1)))
                seqs, bodies = (tuple(compress(one, *is_wanted)) for one in (seqs, bodies))
                if not seqs:
                    continue
            sizes = list(accumulate(map(len, bodies)))
            count = len(sizes)
            if sizes[-1] >= room:
                count = bisect_left(sizes, room) + 1
                after = seqs[count - 1]
            events += map(StoredEvent._make, zip(seqs[:count], bodies, strict=False))
            if sizes[-1] >= room:
                break
            room -= sizes[-1]
            rows = rows if is_wanted else max(1, min(MOST_ROWS, room * count // (sizes[-1] or 1)))
        cursor.close()
    is_short = wanted.matches_all and len(events) < after - begin
    if is_short and _unexplained(connection, begin, [one.seq for one in events], after, gaps):
        return None
    return EventsRead(events, after)


def _cut(events: list[StoredEvent], max_bytes: int) -> list[StoredEvent]:
    """The first events up to and including the one that reaches `max_bytes`."""
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
    """Read backwards on the fast path; None if any event is damaged or missing."""
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
        for seq, body, check, *is_wanted in cursor:
            if seq >= last or wrong_events((body,), (check,)):
                cursor.close()
                return None
            last = seq
            if is_wanted and not is_wanted[0]:
                continue
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
    """Whether an event in `after` < `seq` <= `end` is missing that neither retention nor a known gap explains."""
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
    """Read on the slow path: every intact event in `after` < `seq` <= `end`, skipping damaged rows and pages."""
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
    """The ranges between the gaps."""
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
    """Append the intact events from `first` to `last` to `found`, and add the others to `damaged`."""
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


# -- open calls and output bodies ------------------------------------------------------------------------------------


def open_calls(
    connection: sqlite3.Connection, session: str | None, stream: str | None, damages: Damages
) -> dict[str, list[dict[str, Any]]]:
    rows = damages.rows(
        connection,
        "calls",
        "SELECT stream, kind, id, session, seq, data, checksum FROM calls{}"
        " WHERE (?1 IS NULL OR session=?1) AND (?2 IS NULL OR stream=?2) ORDER BY seq",
        (session, stream),
    )
    found: dict[str, list[dict[str, Any]]] = {CALL: [], PERMISSION: []}
    for *values, checksum in rows:
        if damages.is_intact("calls", values, checksum):
            of_stream, kind, _, of_session, seq, data = values
            found[kind].append({"stream": of_stream, "session": of_session, "seq": seq, **msgspec.json.decode(data)})
    return {"calls": found[CALL], "permissions": found[PERMISSION]}


_PIECE = (
    "pieces.body, start, newlines, coalesce(contents.data, pieces.data), size, content, pieces.checksum"
    " FROM pieces LEFT JOIN contents ON contents.id=content"
)


def read_output(
    connection: sqlite3.Connection, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
) -> OutputSlice | None:
    """A slice of an output body; None if there is no such body. Raises `CorruptError`."""
    try:
        return read_again(lambda: _read_output(connection, output_id, offset, length, unit))
    except Exception as error:
        if not is_corrupt(error):
            raise
        raise _corrupt(output_id) from None


def _corrupt(output_id: str) -> CorruptError:
    return CorruptError(f"output {output_id} is damaged in the journal")


def _read_output(
    connection: sqlite3.Connection, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
) -> OutputSlice | None:
    body = connection.execute(
        "SELECT id, output_id, stream, mime_type, bytes, newlines, terminated, checksum FROM bodies WHERE output_id=?",
        (output_id,),
    ).fetchone()
    if body is None:
        return None
    if body[-1] != row_sum("bodies", *body[:-1]):
        raise _corrupt(output_id)
    key, _, _, mime_type, size, newlines, terminated, _ = body
    if unit == "bytes":
        data = _bytes(connection, key, offset, length, size)
        return OutputSlice(data, offset, size, mime_type)
    total = newlines + (size > 0 and not terminated)
    return OutputSlice(_lines(connection, key, offset, length, size), offset, total, mime_type)


def _bytes(connection: sqlite3.Connection, body: int, offset: int, length: int, total: int) -> bytes:
    """A slice of at most `MAX_SLICE` bytes. Raises `ValueError` if a piece of it is damaged or missing."""
    end = min(offset + min(length, MAX_SLICE), total)
    if end <= offset:
        return b""
    rows = connection.execute(
        f"SELECT {_PIECE} WHERE pieces.body=?1 AND start<?3 AND start>="
        " (SELECT max(start) FROM pieces WHERE body=?1 AND start<=?2) ORDER BY start",
        (body, offset, end),
    ).fetchall()
    pieces = [_verified_piece(row) for row in rows]
    reached = rows[0][1] if rows else end
    for row, data in zip(rows, pieces, strict=True):
        if row[1] != reached:
            raise ValueError("a piece is missing")
        reached += len(data)
    if not rows or reached < end:
        raise ValueError("a piece is missing")
    return b"".join(pieces)[offset - rows[0][1] : end - rows[0][1]]


def _verified_piece(row: tuple[Any, ...]) -> bytes:
    """The bytes of a piece, decompressed and verified. Raises `ValueError` if it is damaged."""
    body, start, newlines, packed, size, content, checksum = row
    try:
        data = unpacked(packed, size)
    except zlib.error:
        raise ValueError("a content is damaged") from None
    if checksum != piece_sum(body, start, newlines, data, content):
        raise ValueError("a piece is damaged")
    return data


def _lines(connection: sqlite3.Connection, body: int, offset: int, count: int, size: int) -> bytes:
    """At most `count` whole lines, as many as fit into a slice; the head of the first line if that does not fit."""
    start = _start_of_line(connection, body, offset)
    if start is None or count <= 0:
        return b""
    return whole_lines(_bytes(connection, body, start, MAX_SLICE, size), count)


def _start_of_line(connection: sqlite3.Connection, body: int, line: int) -> int | None:
    """Byte offset of a line (0-based); None if there is no such line."""
    if line == 0:
        return 0
    row = connection.execute(
        f"SELECT {_PIECE} WHERE pieces.body=? AND newlines<? ORDER BY start DESC LIMIT 1", (body, line)
    ).fetchone()
    if row is None:
        return None
    _, start, newlines, *_ = row
    data = _verified_piece(row)
    lines = data.split(b"\n", line - newlines)
    return int(start + len(data) - len(lines[-1])) if len(lines) > line - newlines else None
