"""The tables of the SQLite file, the checksum of every row, and the bytes of output bodies.

Names. Names are normalized: an event's row refers to them by number. Its source is where it comes from (stream and
session), its label is what it is (kind, provider and tool). So a filter becomes a few sources and a few labels, and one
index finds both together. Messages and reasoning, most events of a stream, have negative labels and are left out of the
indexes of labels; a query for them uses the other indexes or scans.

Checksums. Everything read is verified before it is served. There is one checksum per row, not per commit: a reader with
a filter reads a few events of many commits, and a request for an event reads one; both can verify what they read on its
own, and a mismatch identifies the damaged row. A checksum covers every column of its row, so changed numbers or names
are detected too, and is seeded per table, so a row of one table cannot pass for a row of another. Missing rows are
detected in other ways: events are numbered without holes, and `meta` has the next number; the checksum of a tail row
includes the lines before it; the high-water mark (`file.py`) detects lost commits. An event's checksum is designed for
fast reading: a CRC-32 of its body, to which SQL adds the columns, so that one call verifies many.

Contents. The bytes of output bodies are deduplicated, and compressed where that is shorter: an agent reads the same
file again and again, and a picture is often in both a call and its result. Contents are reference-counted: a trigger
deletes a content with its last piece, so code that deletes pieces need not care.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from zlib import crc32

import msgspec

from tooltap.protocol import inputs

FORMAT = 1
"""Format version of the file. A journal of another version is refused."""

UNINDEXED = frozenset({"message", "reasoning"})
"""Kinds whose labels are negative."""

SHORTEST = 256
"""Bytes of the shortest piece of an output body that is stored as a shared content; shorter ones are stored inline."""
LEVEL = 1
"""Level of zlib compression. Higher levels take several times as long, and save a few percent."""

SESSIONS_TABLE = """
CREATE TABLE sessions (
    session TEXT PRIMARY KEY, last_seq INTEGER NOT NULL, last_ts INTEGER NOT NULL,
    provider TEXT NOT NULL, project TEXT, outcome TEXT NOT NULL, data BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX sessions_by_last_seq ON sessions (last_seq);
CREATE INDEX sessions_by_time ON sessions (last_ts, last_seq, provider, project, outcome, session)
"""

REQUESTS_TABLE = """
CREATE TABLE requests (key INTEGER PRIMARY KEY, source INTEGER NOT NULL, history INTEGER NOT NULL);
CREATE INDEX requests_by_source ON requests (source);
CREATE TRIGGER requests_unused AFTER DELETE ON sources BEGIN DELETE FROM requests WHERE source = old.id; END
"""
"""Key of a request, or of something else that is counted once (`sessions/repetitions.py`), who reported it first, and
whether that was a copy. The rows have no checksums: they are derived from events, and a damaged one costs a count.
Journals of older versions lack the table until they are opened."""
REQUESTS_NAMES = frozenset({"requests", "requests_by_source", "requests_unused"})

TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value, checksum INTEGER) WITHOUT ROWID;

CREATE TABLE sources (
    id INTEGER PRIMARY KEY, stream TEXT NOT NULL, session TEXT NOT NULL, checksum INTEGER, UNIQUE (stream, session)
);
CREATE INDEX sources_by_session ON sources (session);

{REQUESTS_TABLE.strip()};

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

-- `uses`: pieces that have it. `size`: bytes; `data` is compressed if it is shorter.
CREATE TABLE contents (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, uses INTEGER NOT NULL, size INTEGER NOT NULL,
    data BLOB NOT NULL, checksum INTEGER
);
CREATE TRIGGER contents_unused AFTER DELETE ON pieces WHEN old.content IS NOT NULL BEGIN
    UPDATE contents SET uses = uses - 1 WHERE id = old.content; DELETE FROM contents
    WHERE id = old.content AND uses <= 0; END;

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
    """Get the id of a source, inserting it if missing."""
    key = (stream, session)
    found = connection.execute("SELECT id FROM sources WHERE stream=? AND session=?", key).fetchone()
    if found is None:
        (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM sources").fetchone()
        row = (number, *key)
        connection.execute("INSERT INTO sources VALUES (?, ?, ?, ?)", (*row, row_sum("sources", *row)))
        return int(number)
    return int(found[0])


def label_id(connection: sqlite3.Connection, kind: str, provider: str, tool: str | None, raw_tool: str | None) -> int:
    """Get the id of a label, inserting it if missing."""
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
    """A value without verification; None if there is none. If its correctness matters, use `verified_meta`."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


def verified_meta(connection: sqlite3.Connection, key: str) -> int | str | bytes | None:
    """A verified value; None if there is none, or it is damaged."""
    row = connection.execute("SELECT value, checksum FROM meta WHERE key=?", (key,)).fetchone()
    return row[0] if row and row[1] == row_sum("meta", key, row[0]) else None


def set_meta(connection: sqlite3.Connection, key: str, value: int | str | bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, value, row_sum("meta", key, value)))


def note_key(name: str) -> str:
    """The key of `meta` under which a note is stored: see `Journal.store_note`."""
    return f"note {name}"


def removed_key(stream: str) -> str:
    """The key of `meta` under which it is noted that retention has removed output bodies of a stream
    (`RemovedBody`)."""
    return f"bodies {stream}"


SUMS = {
    "meta": "key, value",
    "sources": "id, stream, session",
    "labels": "id, kind, provider, tool, raw_tool",
    "streams": "stream, state, lines, updated, expired, followed, info",
    "snapshots": "stream, lines, data",
    "bodies": "id, output_id, stream, mime_type, bytes, newlines, terminated",
    "contents": "digest, size, data",
    "calls": "stream, kind, id, session, seq, data",
    "sessions": "session, last_seq, last_ts, provider, project, outcome, data",
    "session_streams": "session, stream",
    "gaps": "first, last",
}
"""Table -> columns covered by the checksum of a row (`row_sum`). Events, pieces and tails have their own functions."""

SEEDS = {name: crc32(f"tooltap {name}".encode()) for name in (*SUMS, "tail")}

SOURCE, LABEL = 1_000_003, 15_485_863
"""Factors of columns in a checksum, so that swapped values are detected."""
START, NEWLINES, CONTENT = 1_000_003, 15_485_863, 32_452_843

_AGENT = "CASE WHEN agent IS NULL THEN 0 ELSE crc_of(CAST(agent AS BLOB)) END"
_COLUMNS = f"seq + source * {SOURCE} + label * {LABEL} + {_AGENT}"
EVENT_CHECK = f"checksum - ({_COLUMNS})"
"""SQL expression of the CRC-32 that an event's body must have."""
EVENT_SUM = f"crc_of(body) + {_COLUMNS}"
STREAM_SUM = "row_sum('streams', stream, {state}, lines, {updated}, {expired}, followed, info)"
"""SQL template of the checksum; formatted with the names of columns, or with new values."""

_encode = msgspec.msgpack.Encoder().encode
_tail_decoder = msgspec.msgpack.Decoder(list[inputs.Input])


def row_sum(table: str, *values: int | str | bytes | None) -> int:
    return crc32(_encode(values), SEEDS[table])


def event_sum(seq: int, source: int, label: int, agent: str | None, body: bytes) -> int:
    of_agent = 0 if agent is None else crc32(agent.encode())
    return crc32(body) + seq + source * SOURCE + label * LABEL + of_agent


def piece_sum(body: int, start: int, newlines: int, data: bytes, content: int | None) -> int:
    """The checksum of a piece. `data`: its uncompressed bytes, also if they are stored as a content."""
    return crc32(data) + body + start * START + newlines * NEWLINES + (content or 0) * CONTENT


def stream_sum(stream: str, state: str, lines: int, updated: int, followed: int, info: bytes, expired: int = 0) -> int:
    return row_sum("streams", stream, state, lines, updated, expired, followed, info)


def tail_sum(stream: str, base: int, records: bytes) -> int:
    """The checksum of a row of a tail. `base`: number of the stream's lines before this row; it makes missing or
    reordered rows detectable."""
    return row_sum("tail", stream, records) + base


def lines_of(records: bytes) -> int:
    """Number of lines in a row of a tail."""
    return sum(map(inputs.lines_of, _tail_decoder.decode(records)))


def wrong_events(bodies: Sequence[bytes], checks: Sequence[int]) -> bool:
    """Whether one of these bodies does not match its row's checksum."""
    try:
        return list(map(crc32, bodies)) != list(checks)
    except TypeError:  # a column of another type
        return True


def add_functions(connection: sqlite3.Connection) -> None:
    """Register the SQL functions `crc_of(bytes)` and `row_sum(table, value, …)`."""
    connection.create_function("crc_of", 1, crc32, deterministic=True)
    connection.create_function("row_sum", -1, row_sum, deterministic=True)


def put_content(connection: sqlite3.Connection, data: bytes) -> int | None:
    """Upsert the content with these bytes and increment its reference count. Returns its id; None if `data` is too
    short to be shared."""
    if len(data) < SHORTEST:
        return None
    digest = blake2b(data, digest_size=16).digest()
    found = connection.execute(
        "UPDATE contents SET uses = uses + 1 WHERE digest=? RETURNING id, size, data, checksum", (digest,)
    ).fetchone()
    if found is not None and found[3] == row_sum("contents", digest, found[1], found[2]):
        return int(found[0])
    packed = zlib.compress(data, LEVEL)
    row = (digest, len(data), packed if len(packed) < len(data) else data)
    if found is not None:  # damaged: these are its bytes
        connection.execute(
            "UPDATE contents SET size=?, data=?, checksum=? WHERE id=?", (*row[1:], row_sum("contents", *row), found[0])
        )
        return int(found[0])
    found = connection.execute(
        "INSERT INTO contents (digest, uses, size, data, checksum) VALUES (?, 1, ?, ?, ?) RETURNING id",
        (*row, row_sum("contents", *row)),
    ).fetchone()
    return int(found[0])


def unpacked(data: bytes, size: int | None) -> bytes:
    """Decompress the bytes of a piece. `size`: uncompressed size of its content; None if the piece is stored inline."""
    return data if size is None or len(data) == size else zlib.decompress(data)
