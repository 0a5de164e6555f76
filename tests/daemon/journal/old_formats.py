"""Journals as earlier versions wrote them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import orjson

from tooltap.daemon.journal.interface import TailRecord

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    ts INTEGER,
    kind TEXT NOT NULL,
    stream TEXT NOT NULL,
    session TEXT NOT NULL,
    provider TEXT NOT NULL,
    agent TEXT,
    tool TEXT,
    raw_tool TEXT,
    body BLOB NOT NULL
);
CREATE INDEX events_by_session ON events (session);
CREATE INDEX events_by_stream ON events (stream);

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

STREAMS_BY_UPDATED = "CREATE INDEX streams_by_updated ON streams (updated);\n"
COPIED = ("streams", "snapshots", "bodies", "pieces", "calls", "sessions", "session_streams")


def make_old(path: Path, version: int) -> None:
    """Rewrite a journal as the version with format 1 or 2 would have written it."""
    new = path.with_suffix(".new")
    path.rename(new)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA page_size=8192")
        database.execute("PRAGMA auto_vacuum=INCREMENTAL")
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(TABLES if version == 2 else TABLES.replace(STREAMS_BY_UPDATED, ""))
        database.execute("ATTACH ? AS new", (str(new),))
        database.execute("BEGIN")
        for table in COPIED:
            database.execute(f"INSERT INTO {table} SELECT * FROM new.{table}")
        database.execute("INSERT INTO meta SELECT * FROM new.meta WHERE key<>'format'")
        database.execute("INSERT INTO meta VALUES ('format', ?)", (version,))
        rows = database.execute(
            "SELECT seq, kind, stream, session, provider, agent, tool, raw_tool, body FROM new.events AS event"
            " JOIN new.sources ON sources.id=source JOIN new.labels ON labels.id=label ORDER BY seq"
        ).fetchall()
        database.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(seq, orjson.loads(names[-1]).get("ts"), *names) for seq, *names in rows],
        )
        tail = database.execute("SELECT id, stream, records FROM new.tail").fetchall()
        database.executemany("INSERT INTO tail VALUES (?, ?, ?)", [(*row, _old_records(data)) for *row, data in tail])
        database.execute("COMMIT")
        database.execute("DETACH new")
    new.unlink()


def _old_records(data: bytes) -> bytes:
    """One record per line, without the fields that came later."""
    records = msgspec.msgpack.decode(data, type=list[TailRecord])
    return msgspec.msgpack.encode(
        [
            (one.kind, one.t, one.direction, one.line, one.size, one.lines, one.reason, one.left_out)
            for record in records
            for one in record.inputs()
        ]
    )
