"""The rows of sessions and of open calls: deriving them from events, listing them, and rebuilding them.

They are written in the transaction that writes the events, so they are always consistent with the events. Within a
transaction they are buffered in memory: a session's row is written once, and a call that is opened and closed is not
written at all.

Lists are filtered and sorted by columns: only the rows on the requested page are decoded. The columns, all covered by
the index `sessions_by_time`, are copies of values in the encoded row. Open permission requests and the states of
streams are not copied: they are looked up in `calls` and `streams`, and only if they can matter.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, get_args

import msgspec

from tooltap.daemon.journal.sqlite.damage import Damages
from tooltap.daemon.journal.sqlite.opening import read_gaps
from tooltap.daemon.journal.sqlite.reader import KnownDamage, read
from tooltap.daemon.journal.sqlite.tables import SESSIONS_TABLE, SUMS, row_sum, source_id
from tooltap.daemon.sessions.files import report_files
from tooltap.daemon.sessions.listing import (
    FACETS,
    MOST_COUNTED,
    NAMED,
    PINNED,
    THIS_MACHINE,
    SessionFilter,
    SessionOrder,
    SessionPlace,
)
from tooltap.daemon.sessions.projection import FROM_HOOK, CallRow, Projection
from tooltap.daemon.sessions.repetitions import Compared, Origin, compare, keys_of
from tooltap.daemon.sessions.row import ORIGINS, Pending, SessionRow
from tooltap.daemon.sessions.usage import report
from tooltap.daemon.system.logs import get_logger
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.events import decode
from tooltap.protocol.filters import ALL_EVENTS
from tooltap.protocol.frames import ChangedFilesRequest, UsageRequest
from tooltap.protocol.replies import ChangedFilesResult, StreamState, UsageResult

SESSIONS_IN_MEMORY = 1_000
STREAMS_IN_MEMORY = 1_000
"""Streams whose open calls are in memory."""

# Created at import: two threads that decode a type for the first time at once crash msgspec 0.22.
_decoder = msgspec.json.Decoder(SessionRow)


_COLUMNS = SUMS["sessions"]
_EMPTY = "empty"
"""The outcome, in its column, of a session in which nothing was asked, said or done; its status is `completed`."""
_UPSERT = (
    f"INSERT INTO sessions ({_COLUMNS}, checksum) VALUES ({'?, ' * len(_COLUMNS.split(','))}?)"
    f" ON CONFLICT (session) DO UPDATE SET"
    f" {', '.join(f'{one}=excluded.{one}' for one in [*_COLUMNS.split(', ')[1:], 'checksum'])}"
)


def _values(name: str, row: SessionRow) -> tuple[Any, ...]:
    described = (row.last_ts or 0, row.provider, row.project, _EMPTY if row.is_empty else row.outcome)
    values = (name, row.last_seq, *described, msgspec.json.encode(row))
    return *values, row_sum("sessions", *values)


class _Calls(msgspec.Struct):
    """The open calls and permissions of a stream."""

    rows: dict[str, CallRow]
    stored: set[str]
    """Keys of the rows stored in the table."""
    changed: set[str]


# -- requests ---------------------------------------------------------------------------------------------------------

MOST_PARAMETERS = 500


def with_repetitions(
    connection: sqlite3.Connection, stream: str, outputs: Sequence[Produced | OutputChunk]
) -> Compared:
    """Compare the outputs of a commit with the requests that are stored (`sessions/repetitions.py`)."""
    keys = keys_of(outputs)
    if not keys:
        return Compared(outputs, {}, {}, {})
    known: dict[int, Origin] = {}
    wanted = list(set(keys.values()))
    for start in range(0, len(wanted), MOST_PARAMETERS):
        some = wanted[start : start + MOST_PARAMETERS]
        rows = connection.execute(
            "SELECT key, stream, session, history FROM requests JOIN sources ON sources.id=source"
            f" WHERE key IN ({','.join('?' * len(some))})",
            some,
        )
        known |= {key: Origin(of_stream, session, history=bool(copied)) for key, of_stream, session, copied in rows}
    return compare(stream, outputs, keys, known)


def put_requests(connection: sqlite3.Connection, compared: Compared, source_of: Callable[[Origin], int]) -> None:
    """Store the requests that are new in a commit. `source_of`: returns the id of a source."""
    if compared.new:
        rows = [(key, source_of(origin), origin.history) for key, origin in compared.new.items()]
        connection.executemany("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", rows)


class SqliteProjection(Projection):
    """The projection of sessions and open calls in SQLite, with a cache. `flush` writes changed rows. `reset` drops the
    cache, after a rollback or before a deletion. Damaged rows are treated as missing."""

    def __init__(self, connection: sqlite3.Connection, damages: Damages) -> None:
        self._connection = connection
        self._damages = damages
        self._sessions: OrderedDict[str, SessionRow] = OrderedDict()
        self._changed: set[str] = set()
        self._linked: set[tuple[str, str]] = set()
        self._streams: OrderedDict[str, _Calls] = OrderedDict()
        self._with_changes: set[str] = set()

    def flush(self) -> None:
        if self._changed:
            self._connection.executemany(_UPSERT, [_values(name, self._sessions[name]) for name in self._changed])
            self._changed.clear()
        if self._with_changes:
            self._flush_calls()
        while len(self._sessions) > SESSIONS_IN_MEMORY:
            self._sessions.popitem(last=False)
        while len(self._streams) > STREAMS_IN_MEMORY:
            self._streams.popitem(last=False)
        if len(self._linked) > SESSIONS_IN_MEMORY:
            self._linked.clear()

    def keep(self, name: str, earlier: SessionRow) -> None:
        """Restore the earlier row of a session if it covers more events than the rebuilt one: some no longer exist."""
        row = self._known(name)
        if row is None or earlier.events > row.events:
            if row is not None:
                earlier.complete(row)
            self._sessions[name] = earlier
            self._changed.add(name)

    def reset(self) -> None:
        self._sessions.clear()
        self._changed.clear()
        self._linked.clear()
        self._streams.clear()
        self._with_changes.clear()

    def _flush_calls(self) -> None:
        stored: list[tuple[str, str, str, str, int, bytes, int]] = []
        deleted: list[tuple[str, str, str]] = []
        for stream in self._with_changes:
            calls = self._streams[stream]
            for key in calls.changed:
                kind, _, row_id = key.partition(":")
                row = calls.rows.get(key)
                if row is not None:
                    values = (stream, kind, row_id, row.session, row.seq, msgspec.json.encode(row.data))
                    stored.append((*values, row_sum("calls", *values)))
                elif key in calls.stored:
                    deleted.append((stream, kind, row_id))
            calls.changed.clear()
            calls.stored = set(calls.rows)
        self._with_changes.clear()
        self._connection.executemany("DELETE FROM calls WHERE stream=? AND kind=? AND id=?", deleted)
        self._connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)", stored)

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        calls = self._streams.get(stream)
        if calls is None:
            found = self._connection.execute(
                "SELECT stream, kind, id, session, seq, data, checksum FROM calls WHERE stream=? ORDER BY seq",
                (stream,),
            )
            rows = {
                f"{kind}:{row_id}": CallRow(kind, session, seq, msgspec.json.decode(data))
                for row in found
                if self._damages.is_intact("calls", row[:-1], row[-1])
                for _, kind, row_id, session, seq, data, _ in (row,)
            }
            calls = self._streams[stream] = _Calls(rows, set(rows), set())
        return calls.rows

    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        self._calls(stream)
        calls = self._streams[stream]
        if row is None:
            del calls.rows[key]
        else:
            calls.rows[key] = row
        calls.changed.add(key)
        if stream not in self._with_changes:
            self._with_changes.add(stream)
            self._streams.move_to_end(stream)

    def _change(self, name: str, row: SessionRow) -> SessionRow:
        self._sessions[name] = row
        self._changed.add(name)
        return row

    def _note_fork(self, fork: str, parent: str) -> None:
        pass  # the journal has no events of it

    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        row = self._sessions[name] = self._known(name) or new
        self._sessions.move_to_end(name)
        self._changed.add(name)
        link = (name, stream)
        if link not in self._linked:
            self._linked.add(link)
            values = (*link, row_sum("session_streams", *link))
            self._connection.execute("INSERT OR IGNORE INTO session_streams VALUES (?, ?, ?)", values)
        return row

    def _known(self, name: str) -> SessionRow | None:
        row = self._sessions.get(name)
        if row is None:
            found = self._connection.execute(
                f"SELECT {_COLUMNS}, checksum FROM sessions WHERE session=?", (name,)
            ).fetchone()
            if found is not None and self._damages.is_intact("sessions", found[:-1], found[-1]):
                row = self._sessions[name] = _decoder.decode(found[-2])
        return row

    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        execute = self._connection.execute
        earlier = self._known(alias)
        if earlier is None:
            return None
        self._linked.discard((alias, stream))
        execute("DELETE FROM session_streams WHERE session=? AND stream=?", (alias, stream))
        if execute("SELECT 1 FROM session_streams WHERE session=?", (alias,)).fetchone():
            return None
        del self._sessions[alias]
        self._changed.discard(alias)
        execute("DELETE FROM sessions WHERE session=?", (alias,))
        return earlier


# -- lists ------------------------------------------------------------------------------------------------------------

_DATA = _COLUMNS.split(", ").index("data")
_STATES = frozenset(get_args(StreamState))
_ORDERS = {"seq": "last_seq", "time": "last_ts DESC, last_seq"}
_BEFORE = {"seq": "last_seq<:last_seq", "time": "(last_ts, last_seq)<(:last_ts, :last_seq)"}

_FIRST_TS = "coalesce(json_extract(CAST(data AS TEXT), '$.first_ts'), last_ts)"
_WAITING = "session IN (SELECT session FROM calls WHERE kind='permission')"
_TOLD = f"instr(data, CAST('\"{FROM_HOOK}\":true' AS BLOB))>0"
"""SQL condition on a row of an open permission: a hook has told of it. In texts of the row, the quotes are escaped."""
_DIALOG = f"session IN (SELECT session FROM calls WHERE kind='permission' AND {_TOLD})"
_OPEN = (
    "EXISTS (SELECT 1 FROM session_streams JOIN streams USING (stream)"
    " WHERE session_streams.session=sessions.session AND state='open')"
)
_STATUS = (
    f"CASE WHEN {_WAITING} THEN iif({_OPEN} OR {_DIALOG}, 'waiting', 'interrupted')"
    f" WHEN outcome='running' AND NOT {_OPEN} THEN 'interrupted' WHEN outcome='{_EMPTY}' THEN 'completed'"
    " ELSE outcome END"
)
"""SQL expression of a session's status, equivalent to `SessionRow.status`."""

_EXPRESSIONS = {"status": _STATUS, "host": f"coalesce(json_extract(CAST(data AS TEXT), '$.host'), '{THIS_MACHINE}')"}
"""Key of a filter -> its SQL expression, where it is no column."""


def sessions(
    connection: sqlite3.Connection,
    limit: int,
    before: SessionPlace | None,
    order: SessionOrder,
    wanted: SessionFilter,
    pinned: Container[str],
    damages: Damages,
    descriptions: Descriptions,
) -> list[dict[str, Any]]:
    conditions, values = _conditions(wanted)
    if before is not None:
        conditions.append(_BEFORE[order])
        values |= before._asdict()
    by = f"ORDER BY {_ORDERS[order]} DESC"
    sql = (
        f"SELECT {_COLUMNS}, checksum FROM sessions{{0}} WHERE rowid IN"
        f" (SELECT rowid FROM sessions{{0}} {_where(conditions)} {by} LIMIT :limit) {by}"
    )
    asked, intact = limit, list[list[Any]]()
    while True:
        rows = damages.rows(connection, "sessions", sql, values | {"limit": asked})
        intact = [row for *row, checksum in rows if damages.is_intact("sessions", row, checksum)][:limit]
        if len(intact) == limit or len(rows) < asked:
            break
        asked *= 2  # a list that is shorter than `limit` would pass for the end
    described = [_described(connection, row[0], row[_DATA], damages, descriptions) for row in intact]
    return [one | PINNED if one["session"] in pinned else one for one in described]


def count_sessions(
    connection: sqlite3.Connection, wanted: SessionFilter, damages: Damages
) -> dict[str, dict[str, int]]:
    conditions, values = _conditions(wanted)
    sql = f"SELECT {_STATUS}, provider, project, count(*) FROM sessions{{0}} {_where(conditions)} GROUP BY 1, 2, 3"
    counts = {key: Counter[str]() for key in FACETS}
    for *names, number in damages.rows(connection, "sessions", sql, values):
        for counted, name in zip(counts.values(), names, strict=True):
            if name is not None:
                counted[name] += number
    return {key: dict(counted.most_common(MOST_COUNTED)) for key, counted in counts.items()}


def remotes(connection: sqlite3.Connection, damages: Damages) -> list[str]:
    # The ids of their sessions begin with their names and a slash: no other row is decoded.
    sql = f"SELECT DISTINCT {_EXPRESSIONS['host']} FROM sessions{{0}} WHERE instr(session, '/')>0"
    return sorted({host for (host,) in damages.rows(connection, "sessions", sql, {})} - {THIS_MACHINE})


def usage(connection: sqlite3.Connection, request: UsageRequest, damages: Damages) -> UsageResult:
    conditions, values = _conditions(
        SessionFilter(session=request.session, provider=request.provider, project=request.project, host=request.host)
    )
    sql = f"SELECT {_COLUMNS}, checksum FROM sessions{{0}} {_where(conditions)}"
    rows = damages.rows(connection, "sessions", sql, values)
    whole = (row for *row, checksum in rows if damages.is_intact("sessions", row, checksum))
    return report((_decoder.decode(row[_DATA]).spending(row[0]) for row in whole), request)


def changed_files(connection: sqlite3.Connection, request: ChangedFilesRequest, damages: Damages) -> ChangedFilesResult:
    conditions, values = _conditions(
        SessionFilter(
            session=request.session,
            provider=request.provider,
            project=request.project,
            host=request.host,
            since=request.since,
            until=request.until,
        )
    )
    sql = f"SELECT {_COLUMNS}, checksum FROM sessions{{0}} {_where(conditions)}"
    rows = damages.rows(connection, "sessions", sql, values)
    whole = (row for *row, checksum in rows if damages.is_intact("sessions", row, checksum))
    return report_files((_decoder.decode(row[_DATA]).changed_files(row[0]) for row in whole), request)


def _conditions(wanted: SessionFilter) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for key in NAMED:
        if (names := getattr(wanted, key)) is not None:
            named = {f"{key}{number}": name for number, name in enumerate(names)}
            conditions.append(f"{_EXPRESSIONS.get(key, key)} IN ({','.join(f':{one}' for one in named)})")
            values |= named
    bounds = {"since": "last_ts>=:since", "until": f"{_FIRST_TS}<:until", "changed_after": "last_seq>:changed_after"}
    for key, condition in bounds.items():
        if (value := getattr(wanted, key)) is not None:
            conditions.append(condition)
            values[key] = value
    if wanted.origin is not None:
        found = []
        for number, name in enumerate(wanted.origin):
            values |= {f"name{number}": msgspec.json.encode(name)}
            values |= {f"{column}{number}": _needle(column, name) for column in ORIGINS}
            stated = " OR ".join(f"instr(data, :{column}{number})" for column in ORIGINS)
            found.append(f"(instr(data, :name{number}) AND ({stated}))")
        conditions.append(f"({' OR '.join(found)})")
    if wanted.earlier_id is not None:
        names = {f"earlier{number}": name for number, name in enumerate(wanted.earlier_id)}
        needles = {f"{key}_needle": msgspec.json.encode(name) + b":" for key, name in names.items()}
        stated = " OR ".join(f"instr(data, :{needle})" for needle in needles)
        had = "SELECT 1 FROM json_each(CAST(data AS TEXT), '$.aliases') WHERE key IN"
        # Few rows are decoded: those that have one of the ids as a key of anything.
        conditions.append(f"CASE WHEN {stated} THEN EXISTS ({had} ({','.join(f':{key}' for key in names)})) ELSE 0 END")
        values |= {**names, **needles}
    if not wanted.with_empty:
        conditions.append(f"outcome<>'{_EMPTY}'")
    return conditions, values


def _needle(column: str, name: str) -> bytes:
    """Return a column and its value as they are in an encoded row. No text in the row can contain them: there, the
    quotes are escaped."""
    return msgspec.json.encode({column: name})[1:-1]


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _described(
    connection: sqlite3.Connection, name: str, data: bytes, damages: Damages, descriptions: Descriptions
) -> dict[str, Any]:
    of_session = damages.rows(
        connection,
        "session_streams",
        "SELECT streams.stream, state FROM session_streams{0} JOIN streams USING (stream) WHERE session=? ORDER BY 1",
        (name,),
    )
    waits = f"SELECT max({_TOLD}) FROM calls{{0}} WHERE session=? AND kind='permission' HAVING count(*)>0"
    asked = damages.rows(connection, "calls", waits, (name,))
    streams = {stream: state for stream, state in of_session if state in _STATES}
    return descriptions.get(name, data, streams, ("dialog" if asked[0][0] else "request") if asked else "")


MOST_DESCRIBED = 200
"""Maximum number of sessions whose description is kept: two lists of the usual length."""


class Descriptions:
    """Descriptions of the sessions that were listed last, by session. The newest are listed again and again, and few of
    them have changed since. Several threads use it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[object, dict[str, Any]]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str, data: bytes, streams: dict[str, StreamState], pending: Pending) -> dict[str, Any]:
        """Return the description of a session as `SessionRow.describe` makes it. `data`: its encoded row."""
        facts = blake2b(data, digest_size=16).digest(), streams, pending
        with self._lock:
            known = self._known.get(name)
        if known is None or known[0] != facts:
            known = facts, _decoder.decode(data).describe(name, streams, pending=pending)
        with self._lock:
            self._known[name] = known
            self._known.move_to_end(name)
            if len(self._known) > MOST_DESCRIBED:
                self._known.popitem(last=False)
        return known[1].copy()


# -- making all rows again --------------------------------------------------------------------------------------------

STEP_BYTES = 4_194_304
"""Bytes of events in memory at once during a rebuild."""
REPORT_PERIOD = 10.0
"""Seconds between two progress entries in the log."""

_log = get_logger("journal")


class _Sessions(SqliteProjection):
    """Derives only sessions: the rows of open calls are already in the journal."""

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        return {}

    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        pass


def rebuild_sessions(connection: sqlite3.Connection) -> Counter[str]:
    """Rebuild the rows of all sessions from the events in the journal, for a repair. Returns table -> number of rows
    that did not exist before.

    This is one transaction, committed by the caller: if the process is killed, the journal has either the old or the
    new rows. Events are only read, so the size of the transaction depends on the rows, not on the number of events.
    Facts from events that no longer exist are taken from the earlier rows.
    """
    execute = connection.execute
    execute("DELETE FROM requests")
    for table in ("sessions", "session_streams"):
        execute(f"DROP TABLE IF EXISTS temp.earlier_{table}")
        execute(f"CREATE TEMP TABLE earlier_{table} AS SELECT * FROM {table}")
    execute("DELETE FROM session_streams")
    execute("DROP TABLE sessions")
    for statement in SESSIONS_TABLE.strip().split(";\n"):
        execute(statement)
    damages = Damages()
    rebuilt = _Sessions(connection, damages)
    _apply_all(connection, rebuilt, damages)
    made = {
        "sessions": "session NOT IN (SELECT session FROM earlier_sessions)",
        "session_streams": "(session, stream) NOT IN (SELECT session, stream FROM earlier_session_streams)",
    }
    new = Counter[str]()
    for table, condition in made.items():
        new[table] = execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0]
    _keep_earlier(connection, rebuilt)
    for table in made:
        execute(f"DROP TABLE temp.earlier_{table}")
    return +new


def _apply_all(connection: sqlite3.Connection, rebuilt: _Sessions, damages: Damages) -> None:
    first, last = connection.execute("SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM events").fetchone()
    gaps = read_gaps(connection, damages).within(first, last)
    after = first - 1
    started = time.monotonic()
    report_at = started + REPORT_PERIOD
    while after < last:
        found = read(connection, after, last, ALL_EVENTS, STEP_BYTES, KnownDamage(gaps))
        for stored in found.events:
            try:
                event = decode(stored.body)
            except msgspec.MsgspecError:  # of a kind that this version does not know
                continue
            produced = Produced.of(event, stored.body)
            compared = with_repetitions(connection, event.stream, [produced])
            put_requests(connection, compared, lambda origin: source_id(connection, origin.stream, origin.session))
            rebuilt.apply(event.stream, [(stored.seq, produced)], compared.forks, compared.copies)
        rebuilt.flush()
        after = found.searched
        if time.monotonic() >= report_at:
            _log.info("rebuilding the list of sessions", done=after - first + 1, events=last - first + 1)
            report_at += REPORT_PERIOD
    seconds = round(time.monotonic() - started, 1)
    _log.info("rebuilt the list of sessions", events=last - first + 1, seconds=seconds)


def _keep_earlier(connection: sqlite3.Connection, rebuilt: _Sessions) -> None:
    """Merge in the earlier rows, which have facts from events lost to retention or damage, and sessions without any
    events left."""
    execute = connection.execute
    earlier_rows = execute("SELECT session, data FROM earlier_sessions")
    while rows := earlier_rows.fetchmany(1_000):
        for name, data in rows:
            rebuilt.keep(name, _decoder.decode(data))
        rebuilt.flush()
    execute(
        "INSERT OR IGNORE INTO session_streams SELECT session, stream, row_sum('session_streams', session, stream)"
        " FROM earlier_session_streams WHERE session IN (SELECT session FROM sessions)"
    )
