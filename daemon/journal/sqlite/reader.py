"""Reading the journal: each function is one short query on a connection of its own, in a reader thread.

No function leaves a SQLite cursor open when it returns: an open cursor pins the write-ahead log, which then grows
without bound.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Literal

import msgspec

from tooltap.daemon.journal.interface import (
    OutputSlice,
    StoredEvent,
    StoredStream,
    StreamInfo,
    StreamState,
    TailRecord,
)
from tooltap.daemon.journal.projection import CALL, PERMISSION, SessionRow
from tooltap.daemon.journal.slices import MAX_SLICE, whole_lines
from tooltap.daemon.journal.sqlite.query import query_of
from tooltap.protocol.filters import Filter

__all__ = [
    "count_streams",
    "load_stream",
    "open_calls",
    "read",
    "read_back",
    "read_event",
    "read_output",
    "sessions",
    "streams",
    "streams_of",
]

WINDOW = 20_000
"""Events that one statement scans where no index finds what the filter wants."""

# Created at import: two threads that decode a type for the first time at once crash msgspec 0.22.
_tail_decoder = msgspec.msgpack.Decoder(list[TailRecord])
_info_decoder = msgspec.json.Decoder(StreamInfo)
_session_decoder = msgspec.json.Decoder(SessionRow)


def read(
    connection: sqlite3.Connection, after: int, up_to: int, wanted: Filter | None, max_bytes: int
) -> tuple[list[StoredEvent], int]:
    """Events with `after` < `seq` <= `up_to`, about `max_bytes`; and the `seq` up to which the journal was searched."""
    query = query_of(connection, wanted)
    if query is None:
        return [], max(after, up_to)
    sql = query.sql("seq>:after AND seq<=:end", "ASC")
    window = WINDOW if query.scans else up_to
    events: list[StoredEvent] = []
    while after < up_to and not events:
        end = min(up_to, after + window)
        size = 0
        cursor = connection.execute(sql, {**query.values, "after": after, "end": end})
        after = end
        for row in cursor:
            events.append(StoredEvent._make(row))  # a fifth faster than by field names
            size += len(row[1])
            if size >= max_bytes:
                after = row[0]
                break
        cursor.close()
    return events, after


def read_back(
    connection: sqlite3.Connection, before: int, down_to: int, wanted: Filter | None, limit: int, max_bytes: int
) -> tuple[list[StoredEvent], int]:
    """Events with `down_to` <= `seq` < `before`, newest first; and the `seq` down to which the journal was searched."""
    query = query_of(connection, wanted)
    if query is None:
        return [], min(before, down_to)
    sql = query.sql("seq>=:start AND seq<:before", "DESC")
    window = WINDOW if query.scans else before
    events: list[StoredEvent] = []
    while before > down_to and not events:
        start = max(down_to, before - window)
        size = 0
        cursor = connection.execute(sql, {**query.values, "start": start, "before": before})
        before = start
        for seq, body in cursor:
            events.append(StoredEvent(seq, body))
            size += len(body)
            if len(events) == limit or size >= max_bytes:
                before = seq
                break
        cursor.close()
    return events, before


def read_event(connection: sqlite3.Connection, seq: int) -> StoredEvent | None:
    row = connection.execute("SELECT seq, body FROM events WHERE seq=?", (seq,)).fetchone()
    return StoredEvent(*row) if row else None


def load_stream(connection: sqlite3.Connection, stream: str) -> StoredStream | None:
    connection.execute("BEGIN")  # one snapshot for all three queries
    try:
        row = connection.execute("SELECT state, updated, info FROM streams WHERE stream=?", (stream,)).fetchone()
        if row is None:
            return None
        snapshot = connection.execute("SELECT data, lines FROM snapshots WHERE stream=?", (stream,)).fetchone()
        tail = connection.execute("SELECT records FROM tail WHERE stream=? ORDER BY id", (stream,)).fetchall()
    finally:
        connection.execute("COMMIT")
    records = [record for (batch,) in tail for record in _tail_decoder.decode(batch)]
    data, lines = snapshot or (None, 0)
    return StoredStream(_info(*row), data, lines, records)


def streams(connection: sqlite3.Connection, state: StreamState | None, limit: int | None) -> list[StreamInfo]:
    rows = connection.execute(
        f"SELECT state, updated, info FROM streams {'' if state is None else 'WHERE state=?1'}"
        " ORDER BY updated DESC LIMIT ?2",
        (state, -1 if limit is None else limit),
    )
    return [_info(*row) for row in rows.fetchall()]


def streams_of(connection: sqlite3.Connection, session: str) -> list[StreamInfo]:
    rows = connection.execute(
        "SELECT state, updated, info FROM session_streams JOIN streams USING (stream) WHERE session=?", (session,)
    )
    return [_info(*row) for row in rows.fetchall()]


def count_streams(connection: sqlite3.Connection, states: tuple[StreamState, ...]) -> int:
    marks = ",".join("?" * len(states))
    return int(connection.execute(f"SELECT count(*) FROM streams WHERE state IN ({marks})", states).fetchone()[0])


def _info(state: StreamState, updated: int, data: bytes) -> StreamInfo:
    info = _info_decoder.decode(data)
    info.state, info.updated = state, updated
    return info


def sessions(connection: sqlite3.Connection, limit: int, before: int | None) -> list[dict[str, Any]]:
    rows = connection.execute(
        "SELECT session, data FROM sessions WHERE last_seq<? ORDER BY last_seq DESC LIMIT ?",
        (before if before is not None else 2**63 - 1, limit),
    ).fetchall()
    return [_session(connection, name, _session_decoder.decode(data)) for name, data in rows]


def _session(connection: sqlite3.Connection, name: str, row: SessionRow) -> dict[str, Any]:
    of_session = connection.execute(
        "SELECT streams.stream, state FROM session_streams JOIN streams USING (stream) WHERE session=? ORDER BY 1",
        (name,),
    ).fetchall()
    return row.describe(name, dict(of_session))


def open_calls(
    connection: sqlite3.Connection, session: str | None, stream: str | None
) -> dict[str, list[dict[str, Any]]]:
    rows = connection.execute(
        "SELECT kind, stream, session, seq, data FROM calls"
        " WHERE (?1 IS NULL OR session=?1) AND (?2 IS NULL OR stream=?2) ORDER BY seq",
        (session, stream),
    ).fetchall()
    found: dict[str, list[dict[str, Any]]] = {CALL: [], PERMISSION: []}
    for kind, of_stream, of_session, seq, data in rows:
        found[kind].append({"stream": of_stream, "session": of_session, "seq": seq, **msgspec.json.decode(data)})
    return {"calls": found[CALL], "permissions": found[PERMISSION]}


def read_output(
    connection: sqlite3.Connection, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
) -> OutputSlice | None:
    body = connection.execute(
        "SELECT id, mime_type, bytes, newlines, terminated FROM bodies WHERE output_id=?", (output_id,)
    ).fetchone()
    if body is None:
        return None
    key, mime_type, size, newlines, terminated = body
    if unit == "bytes":
        data = _bytes(connection, key, offset, length)
        return OutputSlice(data, offset, size, mime_type)
    total = newlines + (size > 0 and not terminated)
    return OutputSlice(_lines(connection, key, offset, length), offset, total, mime_type)


def _bytes(connection: sqlite3.Connection, body: int, offset: int, length: int) -> bytes:
    """A slice of at most `MAX_SLICE` bytes."""
    end = offset + min(length, MAX_SLICE)
    rows = connection.execute(
        "SELECT start, data FROM pieces WHERE body=?1 AND start<?3 AND start>="
        " (SELECT max(start) FROM pieces WHERE body=?1 AND start<=?2) ORDER BY start",
        (body, offset, end),
    ).fetchall()
    if not rows:
        return b""
    first = rows[0][0]
    return b"".join(data for _, data in rows)[offset - first : end - first]


def _lines(connection: sqlite3.Connection, body: int, offset: int, count: int) -> bytes:
    """As many whole lines as fit into a slice; the head of the first if it does not fit."""
    start = _start_of_line(connection, body, offset)
    if start is None or count <= 0:
        return b""
    return whole_lines(_bytes(connection, body, start, MAX_SLICE), count)


def _start_of_line(connection: sqlite3.Connection, body: int, line: int) -> int | None:
    """Byte offset of a line (0-based); None if there is no such line."""
    if line == 0:
        return 0
    row = connection.execute(
        "SELECT start, newlines, data FROM pieces WHERE body=? AND newlines<? ORDER BY start DESC LIMIT 1", (body, line)
    ).fetchone()
    if row is None:
        return None
    start, newlines, data = row
    lines = data.split(b"\n", line - newlines)
    return int(start + len(data) - len(lines[-1])) if len(lines) > line - newlines else None
