"""The tables of the SQLite file.

An event's row has numbers in place of names. Its source says where it comes from (stream and session), its label what
it is (kind, provider and tool). So a filter is a few sources and a few labels, and an index finds both together.
Messages and reasoning, most events of a stream, have negative labels and are not in the indexes of labels: whoever
wants them finds them without.
"""

from __future__ import annotations

import sqlite3

__all__ = ["EVENT_TABLES", "FORMAT", "TABLES", "UNINDEXED", "get_meta", "label_id", "set_meta", "source_id"]

FORMAT = 3

UNINDEXED = frozenset({"message", "reasoning"})
"""Kinds whose labels are negative."""

EVENT_TABLES = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, stream TEXT NOT NULL, session TEXT NOT NULL, UNIQUE (stream, session)
);
CREATE INDEX sources_by_session ON sources (session);

CREATE TABLE labels (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, provider TEXT NOT NULL, tool TEXT, raw_tool TEXT
);
CREATE INDEX labels_by_name ON labels (kind, tool, raw_tool, provider);

CREATE TABLE {events} (
    seq INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    label INTEGER NOT NULL,
    agent TEXT,
    body BLOB NOT NULL
);
CREATE INDEX events_by_source ON {events} (source);
CREATE INDEX events_by_label ON {events} (label) WHERE label>0;
CREATE INDEX events_by_both ON {events} (source, label) WHERE label>0
"""

TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

{EVENT_TABLES.format(events="events").strip()};

CREATE TABLE streams (
    stream TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    lines INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expired INTEGER NOT NULL DEFAULT 0,
    info BLOB NOT NULL
);
CREATE INDEX streams_by_state ON streams (state, expired, updated);
CREATE INDEX streams_by_updated ON streams (updated);

-- Not in `streams`: SQLite rewrites a whole row, and a snapshot may be megabytes long.
CREATE TABLE snapshots (stream TEXT PRIMARY KEY, lines INTEGER NOT NULL, data BLOB NOT NULL);

-- One row per commit.
CREATE TABLE tail (id INTEGER PRIMARY KEY, stream TEXT NOT NULL, records BLOB NOT NULL);
CREATE INDEX tail_by_stream ON tail (stream);

CREATE TABLE bodies (
    id INTEGER PRIMARY KEY,
    output_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    newlines INTEGER NOT NULL,
    terminated INTEGER NOT NULL
);
CREATE INDEX bodies_by_stream ON bodies (stream);

-- The chunks of a body. `start`, `newlines`: bytes and newlines of the body before this chunk.
CREATE TABLE pieces (
    body INTEGER NOT NULL, start INTEGER NOT NULL, newlines INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (body, start)
);

-- Calls and permissions without a result or answer yet; `kind` is call or permission.
CREATE TABLE calls (
    stream TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    session TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (stream, kind, id)
);

CREATE TABLE sessions (session TEXT PRIMARY KEY, last_seq INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX sessions_by_last_seq ON sessions (last_seq);

CREATE TABLE session_streams (session TEXT NOT NULL, stream TEXT NOT NULL, PRIMARY KEY (session, stream)) WITHOUT ROWID;
CREATE INDEX session_streams_by_stream ON session_streams (stream);
"""


def source_id(connection: sqlite3.Connection, stream: str, session: str) -> int:
    """The source's number, new if there is none."""
    key = (stream, session)
    found = connection.execute("SELECT id FROM sources WHERE stream=? AND session=?", key).fetchone()
    if found is None:
        found = connection.execute("INSERT INTO sources (stream, session) VALUES (?, ?) RETURNING id", key).fetchone()
    return int(found[0])


def label_id(connection: sqlite3.Connection, kind: str, provider: str, tool: str | None, raw_tool: str | None) -> int:
    """The label's number, new if there is none."""
    label = (kind, provider, tool, raw_tool)
    found = connection.execute(
        "SELECT id FROM labels WHERE kind=? AND provider=? AND tool IS ? AND raw_tool IS ?", label
    ).fetchone()
    if found is None:
        sign = -1 if kind in UNINDEXED else 1
        found = connection.execute(
            "INSERT INTO labels SELECT ? * (coalesce(max(abs(id)), 0) + 1), ?, ?, ?, ? FROM labels RETURNING id",
            (sign, *label),
        ).fetchone()
    return int(found[0])


def get_meta(connection: sqlite3.Connection, key: str) -> int | str | None:
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


def set_meta(connection: sqlite3.Connection, key: str, value: int | str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
