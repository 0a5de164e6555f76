"""The derived rows in the SQLite file: sessions, and calls that are open.

They are written in the transaction that writes the events, so they are never ahead of or behind the events. Within a
transaction they are in memory: a session's row is written once, and a call that is opened and closed is not written.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from tooltap.daemon.journal.sqlite.damage import Damages
from tooltap.daemon.journal.sqlite.tables import SUMS, row_sum
from tooltap.daemon.sessions.projection import CallRow, Projection
from tooltap.daemon.sessions.row import SessionRow

SESSIONS_IN_MEMORY = 1_000
STREAMS_IN_MEMORY = 1_000
"""Streams whose open calls are in memory."""

_session_decoder = msgspec.json.Decoder(SessionRow)


_COLUMNS = SUMS["sessions"]
_UPSERT = (
    f"INSERT INTO sessions ({_COLUMNS}, checksum) VALUES ({'?, ' * len(_COLUMNS.split(','))}?)"
    f" ON CONFLICT (session) DO UPDATE SET"
    f" {', '.join(f'{one}=excluded.{one}' for one in [*_COLUMNS.split(', ')[1:], 'checksum'])}"
)


def _values(name: str, row: SessionRow) -> tuple[Any, ...]:
    described = (row.last_ts or 0, row.provider, row.project, row.outcome)
    values = (name, row.last_seq, *described, msgspec.json.encode(row))
    return *values, row_sum("sessions", *values)


class _Calls(msgspec.Struct):
    """The open calls and permissions of a stream."""

    rows: dict[str, CallRow]
    stored: set[str]
    """Keys of the rows that the table has."""
    changed: set[str]


class SqliteProjection(Projection):
    """`flush` writes the rows changed in memory. `reset` drops all: after a rollback, or before a deletion. A
    damaged row is like none."""

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
        """Keep an earlier row of a session where it says more: of events that are gone."""
        row = self._load(name)
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

    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        row = self._sessions[name] = self._load(name) or new
        self._sessions.move_to_end(name)
        self._changed.add(name)
        link = (name, stream)
        if link not in self._linked:
            self._linked.add(link)
            values = (*link, row_sum("session_streams", *link))
            self._connection.execute("INSERT OR IGNORE INTO session_streams VALUES (?, ?, ?)", values)
        return row

    def _load(self, name: str) -> SessionRow | None:
        row = self._sessions.get(name)
        if row is None:
            found = self._connection.execute(
                f"SELECT {_COLUMNS}, checksum FROM sessions WHERE session=?", (name,)
            ).fetchone()
            if found is not None and self._damages.is_intact("sessions", found[:-1], found[-1]):
                row = self._sessions[name] = _session_decoder.decode(found[-2])
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
