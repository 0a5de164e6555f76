"""Journals as earlier versions wrote them.

The schemas are copies on purpose: they stay as they were when `sqlite/tables.py` changes, or migration from them would
no longer be tested.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import orjson

from tooltap.daemon.journal.interface import TailRecord
from tooltap.daemon.journal.sqlite.checksums import add_functions
from tooltap.daemon.journal.sqlite.contents import unpacked
from tooltap.daemon.journal.sqlite.tip import tip_path

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

FACTS_OF_FORMAT_5 = {
    *("provider", "first_seq", "last_seq", "first_ts", "last_ts", "events", "calls", "ended"),
    *("agent_version", "model", "title", "cwd", "usage"),
}
STREAMS_BY_UPDATED = "CREATE INDEX streams_by_updated ON streams (updated);\n"
COPIED = ("streams", "snapshots", "bodies", "calls", "sessions", "session_streams")


def make_old(path: Path, version: int) -> None:
    """Rewrite a journal as the version with format 1, 2, 3, 4 or 5 would have written it."""
    _write_old_sessions(path)
    if version == 5:
        return
    _drop_checksums(path)
    if version == 4:
        return
    if version == 3:
        _keep_bytes_in_pieces(path)
        return
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
        pieces = database.execute(
            "SELECT body, start, newlines, coalesce(contents.data, pieces.data), size FROM new.pieces AS pieces"
            " LEFT JOIN new.contents AS contents ON contents.id=content"
        ).fetchall()
        database.executemany(
            "INSERT INTO pieces VALUES (?, ?, ?, ?)", [(*place, unpacked(data, size)) for *place, data, size in pieces]
        )
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


def _write_old_sessions(path: Path) -> None:
    """Without columns, and with what rows had at the time: the other facts follow from the events."""
    with closing(sqlite3.connect(path)) as database, database:
        add_functions(database)
        rows = database.execute("SELECT session, last_seq, data FROM sessions").fetchall()
        database.execute("DROP TABLE sessions")
        database.execute(
            "CREATE TABLE sessions"
            " (session TEXT PRIMARY KEY, last_seq INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER)"
        )
        database.execute("CREATE INDEX sessions_by_last_seq ON sessions (last_seq)")
        for name, seq, data in rows:
            row = orjson.loads(data)
            old = {key: value for key, value in row.items() if key in FACTS_OF_FORMAT_5} | {"turn": "started"}
            database.execute("INSERT INTO sessions VALUES (?, ?, ?, NULL)", (name, seq, orjson.dumps(old)))
        database.execute("UPDATE sessions SET checksum=row_sum('sessions', session, last_seq, data)")
        database.execute("UPDATE meta SET value=5 WHERE key='format'")
        database.execute("UPDATE meta SET checksum=row_sum('meta', key, value)")


def _drop_checksums(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE gaps")
        tables = database.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%checksum INTEGER%'").fetchall()
        for (table,) in tables:
            database.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        database.execute("DELETE FROM meta WHERE key='tally'")
        database.execute("UPDATE meta SET value=4 WHERE key='format'")
    tip_path(path).unlink()


def _keep_bytes_in_pieces(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        pieces = database.execute(
            "SELECT data, size, pieces.rowid FROM (SELECT pieces.rowid, content FROM pieces) AS pieces"
            " JOIN contents ON contents.id=content"
        ).fetchall()
        database.executemany(
            "UPDATE pieces SET data=? WHERE rowid=?", [(unpacked(data, size), row) for data, size, row in pieces]
        )
        database.execute("DROP TABLE contents")
        database.execute("DROP TRIGGER contents_unused")
        database.execute("ALTER TABLE pieces DROP COLUMN content")
        database.execute("UPDATE meta SET value=3 WHERE key='format'")


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
