"""Checks of a journal: every page, every checksum, every reference between rows. They change nothing.

Rows are read in parts, each a short query, so that a daemon's commits and its log's checkpoints are not held up. A
`Scrub` checks a journal while a daemon uses it: in a thread, on its own connection, and for a share of the time.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import CorruptError, JournalError
from tooltap.daemon.journal.sqlite.damage import Damages, is_unreadable, read_transaction
from tooltap.daemon.journal.sqlite.file import Durability, connect, high_water_path, open_read_only, read_high_water
from tooltap.daemon.journal.sqlite.opening import read_gaps, read_tally
from tooltap.daemon.journal.sqlite.reader import KnownDamage, read
from tooltap.daemon.journal.sqlite.tables import (
    REQUESTS_NAMES,
    SUMS,
    TABLES,
    get_meta,
    lines_of,
    piece_sum,
    row_sum,
    tail_sum,
    unpacked,
    verified_meta,
)
from tooltap.protocol.filters import ALL_EVENTS

PART, FEW = 500, 10
"""Rows read by one query; `FEW` where a row may have a megabyte."""
PART_BYTES = 4 * 2**20
MOST_MESSAGES = 100
"""Most reports of damaged pages: one damaged page may cause many."""

Pace = Callable[[int, str], None]
"""Called after each part with its number of rows and the table, to pause if needed."""


class Damage(NamedTuple):
    """One damaged part of a journal."""

    part: str
    """The table, or `pages`, `schema`, `events`, `references`, `log`, `tip`."""
    text: str
    """Description, one sentence."""
    first: int | None = None
    last: int | None = None
    """First and last `seq` of the damaged events, if events are damaged."""


def no_pace(rows: int, table: str) -> None:
    pass


def check_file(path: Path) -> Iterator[Damage]:
    """All damages of a journal that no daemon needs to have open. Raises `JournalError` if it is no journal, is one of
    another format, or cannot be read where it is."""
    try:
        connection = open_read_only(path)
    except CorruptError as error:
        if not high_water_path(path).exists():  # nothing says that it was one
            raise
        yield Damage("pages", str(error))
        return
    with closing(connection):
        if high_water_path(path).exists() and read_high_water(path) is None:
            yield Damage("tip", f"{high_water_path(path)} is damaged: commits that are gone are not noticed")
        yield from check(connection, path)


def check(connection: sqlite3.Connection, path: Path, pace: Pace = no_pace) -> Iterator[Damage]:
    """Find all damages of an open journal."""
    yield from _guarded("schema", check_schema(connection))
    yield from _guarded("pages", check_structure(connection))
    yield from _guarded("rows", check_rows(connection, pace))
    yield from _guarded("events", check_events(connection, pace))
    yield from _guarded("references", check_references(connection))
    yield from _guarded("meta", check_meta(connection, path))


def _guarded(part: str, checks: Iterator[Damage]) -> Iterator[Damage]:
    try:
        yield from checks
    except Exception as error:
        if not is_unreadable(error):
            raise
        yield Damage(part, f"{part} cannot be read: {error}")


def check_schema(connection: sqlite3.Connection) -> Iterator[Damage]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in TABLES.split(";\n"):
            fresh.execute(statement)
        wanted, found = _schema(fresh), _schema(connection)
    if not found.keys() & REQUESTS_NAMES:  # of an older version
        wanted = {name: sql for name, sql in wanted.items() if name not in REQUESTS_NAMES}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            yield Damage("schema", f"the definition of {name} is damaged")
    (encoding,) = connection.execute("PRAGMA encoding").fetchone()
    if encoding != "UTF-8":
        yield Damage("schema", "the encoding of texts is damaged")


def _schema(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, type, tbl_name, sql FROM sqlite_master").fetchall()
    return {str(name): "".join(f"{kind} {table} {sql}".replace('"', "").split()) for name, kind, table, sql in rows}


def check_structure(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Every page: whether it is used exactly once, is in order, and is in its indexes."""
    for (text,) in connection.execute(f"PRAGMA integrity_check({MOST_MESSAGES})").fetchall():
        if text != "ok":
            sentence = " ".join(str(text).replace("***", "").split())
            yield Damage("pages", f"a page is damaged: {sentence[:300]}")
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    name = connection.execute("PRAGMA database_list").fetchone()[2]
    if name and (length := Path(name).stat().st_size) % size:
        yield Damage("pages", f"the file ends inside a page: {length} bytes are not {pages} pages of {size}")


def check_rows(connection: sqlite3.Connection, pace: Pace = no_pace) -> Iterator[Damage]:
    """Every checksum but those of events."""
    for table, columns in SUMS.items():
        for row in _parts(connection, table, columns, pace):
            *values, checksum = row
            try:
                intact = row_sum(table, *values) == checksum
            except (TypeError, OverflowError, UnicodeError):
                intact = False
            if intact and table == "contents":
                intact = _unpacks(*values)
            if not intact:
                yield Damage(table, f"a row of {table} is damaged: {str(values[0])[:100]!r}")
    yield from _tails(connection)
    yield from _pieces(connection, pace)


def _unpacks(digest: bytes, size: int, data: bytes) -> bool:
    try:
        return len(unpacked(data, size)) == size
    except zlib.error:
        return False


def _parts(connection: sqlite3.Connection, table: str, columns: str, pace: Pace) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, in the order of its key. Raises `sqlite3.Error`."""
    keyed = table in ("meta", "session_streams")
    key = columns if table == "session_streams" else "key" if keyed else "rowid"
    count = len(key.split(","))
    marks = ",".join("?" * count)
    most = FEW if table in ("snapshots", "contents") else PART
    after: tuple[Any, ...] = ("",) * count if keyed else (-(2**63),)
    while True:
        sql = (
            f"SELECT {key}, {columns}, checksum FROM {table} NOT INDEXED WHERE ({key})>({marks})"
            f" ORDER BY {key} LIMIT {most}"
        )
        rows = connection.execute(sql, after).fetchall()
        yield from (row[count:] for row in rows)
        pace(len(rows), table)
        if len(rows) < most:
            return
        before, after = after, rows[-1][:count]
        if not _is_after(after, before):  # a damaged tree leads in a circle, for ever; `check_structure` says so
            return


def _is_after(key: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    try:
        return key > before
    except TypeError:  # damaged keys have other types
        return False


def _snapshots(connection: sqlite3.Connection, sql: str) -> Iterator[Any]:
    """The values of a column, each yielded inside its own read transaction."""
    for (value,) in connection.execute(sql).fetchall():
        with read_transaction(connection):
            yield value


def _tails(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check that each row of a tail continues where the previous one ended, and that the last ends with its stream."""
    sql = (
        "SELECT state, lines, (SELECT lines FROM snapshots WHERE snapshots.stream=streams.stream)"
        " FROM streams WHERE stream=?"
    )
    for stream in _snapshots(connection, "SELECT stream FROM streams NOT INDEXED"):
        row = connection.execute(sql, (stream,)).fetchone()
        if row is None:  # deleted meanwhile, or the index is damaged
            continue
        state, lines, covered = row
        rows = connection.execute("SELECT records, checksum FROM tail WHERE stream=? ORDER BY id", (stream,)).fetchall()
        if covered is None and not rows:
            if state != "ended" and lines:
                yield Damage("tail", f"the state of stream {stream} is gone")
            continue
        reached = covered or 0
        for records, checksum in rows:
            try:
                intact = tail_sum(stream, reached, records) == checksum
                reached += lines_of(records) if intact else 0
            except (TypeError, msgspec.MsgspecError):
                intact = False
            if not intact:
                yield Damage("tail", f"the tail of stream {stream} is damaged")
                break
        else:
            if reached != lines:
                yield Damage("tail", f"the state of stream {stream} has {reached} lines, not {lines}")


def _pieces(connection: sqlite3.Connection, pace: Pace) -> Iterator[Damage]:
    """Check that the pieces of each output body are intact, contiguous and complete."""
    sql = (
        "SELECT start, pieces.newlines, coalesce(contents.data, pieces.data), size, content, pieces.checksum"
        " FROM pieces LEFT JOIN contents ON contents.id=content WHERE pieces.body=? ORDER BY start"
    )
    for body in _snapshots(connection, "SELECT id FROM bodies NOT INDEXED"):
        row = connection.execute("SELECT output_id, bytes, newlines FROM bodies WHERE id=?", (body,)).fetchone()
        if row is None:  # deleted meanwhile
            continue
        reached = newlines = count = 0
        cursor = connection.execute(sql, (body,))
        for start, before, packed, size, content, checksum in cursor:
            count += 1
            try:
                data = unpacked(packed, size)
                intact = piece_sum(body, start, before, data, content) == checksum
            except (TypeError, zlib.error):
                intact, data = False, b""
            if not intact or (start, before) != (reached, newlines):
                yield Damage("pieces", f"a part of output {row[0]} is damaged, at byte {start}")
            reached, newlines = start + len(data), before + data.count(b"\n")
        cursor.close()
        if (reached, newlines) != row[1:]:
            yield Damage("bodies", f"output {row[0]} is not complete")
        pace(count, "pieces")


def check_events(connection: sqlite3.Connection, pace: Pace = no_pace) -> Iterator[Damage]:
    """Check every event, and that none is missing."""
    gaps = read_gaps(connection, Damages())
    number = verified_meta(connection, "next_seq")
    if isinstance(number, int):
        end = number - 1
    else:
        end = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
    after = 0
    while after < end:
        known = KnownDamage(gaps.within(after + 1, end))
        found = read(connection, after, end, ALL_EVENTS, PART_BYTES, known)
        recorded = set(known.gaps)
        for first, last in found.damaged:
            if (first, last) not in recorded:
                what = f"event {first} is" if first == last else f"events {first} to {last} are"
                yield Damage("events", f"{what} damaged", first, last)
        after = found.searched
        pace(len(found.events), "events")


_REFERENCES = {
    "events without a source": "SELECT count(*) FROM events WHERE source NOT IN (SELECT id FROM sources)",
    "events without a label": "SELECT count(*) FROM events WHERE label NOT IN (SELECT id FROM labels)",
    "parts of outputs without their bytes": (
        "SELECT count(*) FROM pieces WHERE content IS NOT NULL AND content NOT IN (SELECT id FROM contents)"
    ),
    "parts of outputs that are gone": "SELECT count(*) FROM pieces WHERE body NOT IN (SELECT id FROM bodies)",
    "contents with a wrong reference count": (
        "SELECT count(*) FROM contents LEFT JOIN"
        " (SELECT content, count(*) AS used FROM pieces WHERE content IS NOT NULL GROUP BY content)"
        " ON content=id WHERE uses<>coalesce(used, 0)"
    ),
    **{
        f"rows of {table} without their stream": (
            f"SELECT count(*) FROM {table} WHERE stream NOT IN (SELECT stream FROM streams)"
        )
        for table in ("snapshots", "tail", "calls", "session_streams")
    },
    "sessions without a stream": (
        "SELECT count(*) FROM sessions WHERE session NOT IN (SELECT session FROM session_streams)"
    ),
    "streams of a session that is gone": (
        "SELECT count(*) FROM session_streams WHERE session NOT IN (SELECT session FROM sessions)"
    ),
}


def check_references(connection: sqlite3.Connection) -> Iterator[Damage]:
    for what in _REFERENCES:
        yield from _references(connection, what)


def _references(connection: sqlite3.Connection, what: str) -> Iterator[Damage]:
    (number,) = connection.execute(_REFERENCES[what]).fetchone()
    if number:
        yield Damage("references", f"there are {number} {what}")


def check_meta(connection: sqlite3.Connection, path: Path) -> Iterator[Damage]:
    mark = read_high_water(path)  # first: what is committed meanwhile is not missing
    with read_transaction(connection):
        names = {key for (key,) in connection.execute("SELECT key FROM meta").fetchall()}
        for key in ("format", "id", "next_seq", "expired", "tally"):
            if key not in names:
                yield Damage("meta", f"the journal's {key} is gone")
        tally = read_tally(connection)
        (events,) = connection.execute("SELECT count(*) FROM events NOT INDEXED").fetchone()
        newest = connection.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
        number = verified_meta(connection, "next_seq")
        name = verified_meta(connection, "id")
    if tally is not None and tally.events != events:
        yield Damage("events", f"there are {events} events, and not {tally.events}")
    if isinstance(number, int) and newest >= number:
        yield Damage("meta", f"there is an event {newest}, and the next would be {number}")
    if mark is not None and tally is not None and mark.journal == name and mark.transactions > tally.transactions:
        lost = mark.transactions - tally.transactions
        first, last = (
            (number, mark.next_seq - 1) if isinstance(number, int) and mark.next_seq > number else (None, None)
        )
        what = "" if first is None else f", with the events {first} to {last}"
        yield Damage("log", f"the last {lost} transactions are gone{what}", first, last)


def describe_gaps(path: Path) -> list[tuple[int, int]]:
    """Ranges of `seq` recorded as lost; empty if they cannot be read."""
    try:
        with closing(open_read_only(path)) as connection:
            return list(read_gaps(connection, Damages()))
    except (JournalError, sqlite3.Error):
        return []


# -- before filters are used -----------------------------------------------------------------------------------------


class Survey(NamedTuple):
    """What a reader with a filter could not notice."""

    damaged: list[str]
    """Parts of what leads to the events that a filter selects: indexes, names, and the order of the table."""
    missing: list[tuple[int, int]]
    """Ranges of `seq` of events that should be there. If anything is damaged, they are found by reading."""


def survey(connection: sqlite3.Connection, is_stopped: Callable[[], bool]) -> Survey:
    """Check everything that a filter relies on, without reading the bodies of events: 0.2 s for 100,000. Raises
    `sqlite3.Error` once `is_stopped` returns True."""
    connection.set_progress_handler(is_stopped, STEPS)
    try:
        with read_transaction(connection):
            damaged = [one.text for one in _ways(connection)]
            return Survey(damaged, [] if damaged else _missing(connection))
    finally:
        connection.set_progress_handler(None, 0)


def _ways(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Damages of what leads to an event: each index, and the names that a filter has."""
    yield from _guarded("schema", check_schema(connection))
    for table in ("events", "sources", "labels"):
        yield from _guarded(table, _in_order(connection, table))
    for table in ("sources", "labels"):
        yield from _guarded(table, _intact_rows(connection, table))
    for what in ("events without a source", "events without a label"):
        yield from _guarded("references", _references(connection, what))


def _in_order(connection: sqlite3.Connection, table: str) -> Iterator[Damage]:
    if connection.execute(f"PRAGMA integrity_check({table})").fetchall() != [("ok",)]:
        yield Damage(table, f"the pages of {table}")


def _intact_rows(connection: sqlite3.Connection, table: str) -> Iterator[Damage]:
    for *values, checksum in connection.execute(f"SELECT {SUMS[table]}, checksum FROM {table} NOT INDEXED"):
        if row_sum(table, *values) != checksum:
            yield Damage(table, f"a row of {table}")


def _missing(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    expired, end = (int(get_meta(connection, key) or 0) for key in ("expired", "next_seq"))
    within = "FROM events NOT INDEXED WHERE seq>? AND seq<?"
    (count,) = connection.execute(f"SELECT count(*) {within}", (expired, end)).fetchone()
    if count == max(end - expired - 1, 0):
        return []
    seqs = [seq for (seq,) in connection.execute(f"SELECT seq {within} ORDER BY seq", (expired, end))]
    return [(one + 1, other - 1) for one, other in pairwise([expired, *seqs, end]) if other - one > 1]


# -- while a daemon uses it -------------------------------------------------------------------------------------------

STEPS = 20_000
"""Virtual machine steps of SQLite between two pauses."""
LEAST_SHARE = 0.5
"""Least share of the time for the check of the page structure. It is one read transaction, during which the
write-ahead log cannot be reset and grows."""
LONGEST_PAUSE = 5.0


class _StoppedError(Exception):
    pass


class Scrub:
    """Checks a journal while a daemon uses it. `share` (0 to 1): the part of the time spent working; in the rest it
    sleeps."""

    def __init__(self, path: Path, durability: Durability, share: float) -> None:
        self.rows = 0
        """Rows that were verified so far."""
        self._path = path
        self._durability: Durability = durability
        self._share = share
        self._worked_from = 0.0
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> list[Damage] | None:
        """Check everything, and block until then. Return None if it was stopped."""
        self._worked_from = time.monotonic()
        try:
            with closing(connect(self._path, self._durability)) as connection:
                connection.set_progress_handler(self._step, STEPS)
                return list(check(connection, self._path, self._pace))
        except _StoppedError:
            return None
        except sqlite3.OperationalError:
            if self._stop.is_set():
                return None
            raise

    def _step(self) -> bool:
        """Progress handler: pause, and return True to interrupt the statement."""
        return self._pause(max(self._share, LEAST_SHARE))

    def _pace(self, rows: int, table: str) -> None:
        self.rows += rows
        if self._pause(self._share):
            raise _StoppedError

    def _pause(self, share: float) -> bool:
        worked = time.monotonic() - self._worked_from
        stopped = self._stop.wait(min(worked * (1 / share - 1), LONGEST_PAUSE))
        self._worked_from = time.monotonic()
        return stopped
