"""The tables of the SQLite file.

An event's row has numbers in place of names. Its source says where it comes from (stream and session), its label what
it is (kind, provider and tool). So a filter is a few sources and a few labels, and an index finds both together.
Messages and reasoning, most events of a stream, have negative labels and are not in the indexes of labels: whoever
wants them finds them without.

Every row has its `checksum` (`checksums.py`).
"""

from __future__ import annotations

import sqlite3

from tooltap.daemon.journal.sqlite.checksums import row_sum
from tooltap.daemon.journal.sqlite.contents import CONTENT_TABLES

FORMAT = 1
"""A journal of another format is refused."""

UNINDEXED = frozenset({"message", "reasoning"})
"""Kinds whose labels are negative."""

SESSIONS_TABLE = """
CREATE TABLE sessions (
    session TEXT PRIMARY KEY, last_seq INTEGER NOT NULL, last_ts INTEGER NOT NULL,
    provider TEXT NOT NULL, project TEXT, outcome TEXT NOT NULL, data BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX sessions_by_last_seq ON sessions (last_seq);
CREATE INDEX sessions_by_time ON sessions (last_ts, last_seq, provider, project, outcome, session)
"""

_CONTENTS = ";\n".join(CONTENT_TABLES)

TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value, checksum INTEGER) WITHOUT ROWID;

CREATE TABLE sources (
    id INTEGER PRIMARY KEY, stream TEXT NOT NULL, session TEXT NOT NULL, checksum INTEGER, UNIQUE (stream, session)
);
CREATE INDEX sources_by_session ON sources (session);

CREATE TABLE labels (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, provider TEXT NOT NULL, tool TEXT, raw_tool TEXT, checksum INTEGER
);
CREATE INDEX labels_by_name ON labels (kind, tool, raw_tool, provider);

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    label INTEGER NOT NULL,
    agent TEXT,
    body BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX events_by_source ON events (source);
CREATE INDEX events_by_label ON events (label) WHERE label>0;
CREATE INDEX events_by_both ON events (source, label) WHERE label>0;

CREATE TABLE streams (
    stream TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    lines INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expired INTEGER NOT NULL DEFAULT 0,
    followed INTEGER NOT NULL,
    info BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX streams_by_state ON streams (state, expired, updated, followed);
CREATE INDEX streams_by_updated ON streams (updated);

-- Not in `streams`: SQLite rewrites a whole row, and a snapshot may be megabytes long.
CREATE TABLE snapshots (stream TEXT PRIMARY KEY, lines INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER);

-- One row per commit.
CREATE TABLE tail (id INTEGER PRIMARY KEY, stream TEXT NOT NULL, records BLOB NOT NULL, checksum INTEGER);
CREATE INDEX tail_by_stream ON tail (stream);

CREATE TABLE bodies (
    id INTEGER PRIMARY KEY,
    output_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    newlines INTEGER NOT NULL,
    terminated INTEGER NOT NULL, checksum INTEGER
);
CREATE INDEX bodies_by_stream ON bodies (stream);

-- The chunks of a body. `start`, `newlines`: bytes and newlines of the body before this chunk. Its bytes are `data`, or
-- those of a `content`.
CREATE TABLE pieces (
    body INTEGER NOT NULL, start INTEGER NOT NULL, newlines INTEGER NOT NULL, data BLOB NOT NULL, content INTEGER,
    checksum INTEGER,
    PRIMARY KEY (body, start)
);
{_CONTENTS};

-- Calls and permissions without a result or answer yet; `kind` is call or permission.
CREATE TABLE calls (
    stream TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    session TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER,
    PRIMARY KEY (stream, kind, id)
);

{SESSIONS_TABLE.strip()};

CREATE TABLE session_streams (
    session TEXT NOT NULL, stream TEXT NOT NULL, checksum INTEGER, PRIMARY KEY (session, stream)
) WITHOUT ROWID;
CREATE INDEX session_streams_by_stream ON session_streams (stream);

-- Ranges of `seq` whose events were lost, and that stay gone: a repair did not find them, or their commits are gone.
CREATE TABLE gaps (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, checksum INTEGER);
"""


def source_id(connection: sqlite3.Connection, stream: str, session: str) -> int:
    """The source's number, new if there is none."""
    key = (stream, session)
    found = connection.execute("SELECT id FROM sources WHERE stream=? AND session=?", key).fetchone()
    if found is None:
        (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM sources").fetchone()
        row = (number, *key)
        connection.execute("INSERT INTO sources VALUES (?, ?, ?, ?)", (*row, row_sum("sources", *row)))
        return int(number)
    return int(found[0])


def label_id(connection: sqlite3.Connection, kind: str, provider: str, tool: str | None, raw_tool: str | None) -> int:
    """The label's number, new if there is none."""
    label = (kind, provider, tool, raw_tool)
    found = connection.execute(
        "SELECT id FROM labels WHERE kind=? AND provider=? AND tool IS ? AND raw_tool IS ?", label
    ).fetchone()
    if found is None:
        (number,) = connection.execute("SELECT coalesce(max(abs(id)), 0) + 1 FROM labels").fetchone()
        row = (-number if kind in UNINDEXED else number, *label)
        connection.execute("INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?)", (*row, row_sum("labels", *row)))
        return int(row[0])
    return int(found[0])


def get_meta(connection: sqlite3.Connection, key: str) -> int | str | bytes | None:
    """Not verified: whoever depends on a value asks `verified_meta`."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


def verified_meta(connection: sqlite3.Connection, key: str) -> int | str | bytes | None:
    """None if there is no value, or it is damaged."""
    row = connection.execute("SELECT value, checksum FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row and row[1] == row_sum("meta", key, row[0]) else None


def set_meta(connection: sqlite3.Connection, key: str, value: int | str | bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, value, row_sum("meta", key, value)))
