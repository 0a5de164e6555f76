"""The derived rows in the SQLite file.

They are written in the transaction that writes the events, so they are never ahead of or behind the events. Within a
transaction they are in memory: a session's row is written once, and a call that is opened and closed is not written.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from tooltap.daemon.journal.projection import CallRow, Projection, SessionRow

__all__ = ["SqliteProjection"]

SESSIONS_IN_MEMORY = 1_000
STREAMS_IN_MEMORY = 1_000
"""Streams whose open calls are in memory."""

_session_decoder = msgspec.json.Decoder(SessionRow)


class _Calls(msgspec.Struct):
    """The open calls and permissions of a stream."""

    rows: dict[str, CallRow]
    stored: set[str]
    """Keys of the rows that the table has."""
    changed: set[str]


class SqliteProjection(Projection):
    """`flush` writes the rows changed in memory. `reset` drops all: after a rollback, or before a deletion."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sessions: OrderedDict[str, SessionRow] = OrderedDict()
        self._changed: set[str] = set()
        self._linked: set[tuple[str, str]] = set()
        self._streams: OrderedDict[str, _Calls] = OrderedDict()
        self._with_changes: set[str] = set()

    def flush(self) -> None:
        if self._changed:
            self._connection.executemany(
                "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (session) DO UPDATE"
                " SET last_seq=excluded.last_seq, data=excluded.data",
                [(name, (row := self._sessions[name]).last_seq, msgspec.json.encode(row)) for name in self._changed],
            )
            self._changed.clear()
        if self._with_changes:
            self._flush_calls()
        while len(self._sessions) > SESSIONS_IN_MEMORY:
            self._sessions.popitem(last=False)
        while len(self._streams) > STREAMS_IN_MEMORY:
            self._streams.popitem(last=False)
        if len(self._linked) > SESSIONS_IN_MEMORY:
            self._linked.clear()

    def reset(self) -> None:
        self._sessions.clear()
        self._changed.clear()
        self._linked.clear()
        self._streams.clear()
        self._with_changes.clear()

    def _flush_calls(self) -> None:
        stored: list[tuple[str, str, str, str, int, bytes]] = []
        deleted: list[tuple[str, str, str]] = []
        for stream in self._with_changes:
            calls = self._streams[stream]
            for key in calls.changed:
                kind, _, row_id = key.partition(":")
                row = calls.rows.get(key)
                if row is not None:
                    stored.append((stream, kind, row_id, row.session, row.seq, msgspec.json.encode(row.data)))
                elif key in calls.stored:
                    deleted.append((stream, kind, row_id))
            calls.changed.clear()
            calls.stored = set(calls.rows)
        self._with_changes.clear()
        self._connection.executemany("DELETE FROM calls WHERE stream=? AND kind=? AND id=?", deleted)
        self._connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?)", stored)

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        calls = self._streams.get(stream)
        if calls is None:
            found = self._connection.execute(
                "SELECT kind || ':' || id, kind, session, seq, data FROM calls WHERE stream=? ORDER BY seq", (stream,)
            )
            rows = {
                key: CallRow(kind, session, seq, msgspec.json.decode(data)) for key, kind, session, seq, data in found
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

    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        row = self._sessions[name] = self._load(name) or new
        self._sessions.move_to_end(name)
        self._changed.add(name)
        link = (name, stream)
        if link not in self._linked:
            self._linked.add(link)
            self._connection.execute("INSERT OR IGNORE INTO session_streams VALUES (?, ?)", link)
        return row

    def _load(self, name: str) -> SessionRow | None:
        row = self._sessions.get(name)
        if row is None:
            found = self._connection.execute("SELECT data FROM sessions WHERE session=?", (name,)).fetchone()
            if found is not None:
                row = self._sessions[name] = _session_decoder.decode(found[0])
        return row

    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        execute = self._connection.execute
        earlier = self._load(alias)
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
