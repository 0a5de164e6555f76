"""The derived rows in the SQLite file.

They are written in the transaction that writes the events, so they are never ahead of or behind the events.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import Any

import msgspec

from tooltap.daemon.journal.projection import CALL, Projection, SessionRow
from tooltap.protocol.events import Event, ToolUpdate

__all__ = ["SqliteProjection"]

SESSIONS_IN_MEMORY = 1_000

_session_decoder = msgspec.json.Decoder(SessionRow)


class SqliteProjection(Projection):
    """`flush` writes the session rows changed in memory. `reset` drops them: after a rollback, or a deletion."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sessions: OrderedDict[str, SessionRow] = OrderedDict()
        self._changed: set[str] = set()
        self._linked: set[tuple[str, str]] = set()

    def end_stream(self, stream: str) -> None:
        self._connection.execute("DELETE FROM calls WHERE stream=?", (stream,))

    def flush(self) -> None:
        self._connection.executemany(
            "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (session) DO UPDATE"
            " SET last_seq=excluded.last_seq, data=excluded.data",
            [(name, (row := self._sessions[name]).last_seq, msgspec.json.encode(row)) for name in self._changed],
        )
        self._changed.clear()
        while len(self._sessions) > SESSIONS_IN_MEMORY:
            self._sessions.popitem(last=False)
        if len(self._linked) > SESSIONS_IN_MEMORY:
            self._linked.clear()

    def reset(self) -> None:
        self._sessions.clear()
        self._changed.clear()
        self._linked.clear()

    def _open(self, kind: str, row_id: str, seq: int, event: Event, data: dict[str, Any]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?)",
            (event.stream, kind, row_id, event.session, seq, msgspec.json.encode(data)),
        )

    def _close(self, kind: str, row_id: str, event: Event) -> None:
        self._connection.execute("DELETE FROM calls WHERE stream=? AND kind=? AND id=?", (event.stream, kind, row_id))

    def _call(self, event: ToolUpdate) -> dict[str, Any] | None:
        key = (event.stream, CALL, event.call_id)
        found = self._connection.execute("SELECT data FROM calls WHERE stream=? AND kind=? AND id=?", key).fetchone()
        return msgspec.json.decode(found[0], type=dict[str, Any]) if found else None

    def _change_call(self, event: ToolUpdate, data: dict[str, Any]) -> None:
        key = (event.stream, CALL, event.call_id)
        self._connection.execute(
            "UPDATE calls SET data=? WHERE stream=? AND kind=? AND id=?", (msgspec.json.encode(data), *key)
        )

    def _load(self, name: str) -> SessionRow | None:
        row = self._sessions.get(name)
        if row is None:
            found = self._connection.execute("SELECT data FROM sessions WHERE session=?", (name,)).fetchone()
            if found is not None:
                row = self._sessions[name] = _session_decoder.decode(found[0])
        return row

    def _store(self, name: str, row: SessionRow, stream: str) -> None:
        self._sessions[name] = row
        self._sessions.move_to_end(name)
        self._changed.add(name)
        link = (name, stream)
        if link not in self._linked:
            self._linked.add(link)
            self._connection.execute("INSERT OR IGNORE INTO session_streams VALUES (?, ?)", link)

    def _rename(self, alias: str, name: str, stream: str) -> SessionRow | None:
        execute = self._connection.execute
        execute("UPDATE calls SET session=? WHERE session=? AND stream=?", (name, alias, stream))
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
