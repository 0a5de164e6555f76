"""The bytes of output bodies: each once, however many bodies have them, and compressed where that is shorter.

An agent reads the same file again and again, and a picture is often in a call and in its result. A trigger deletes a
content with the last piece that has it, so that whoever deletes pieces need not know.
"""

from __future__ import annotations

import sqlite3
import zlib
from hashlib import blake2b

from tooltap.daemon.journal.sqlite.checksums import row_sum

__all__ = ["CONTENT_TABLES", "put_content", "unpacked"]

SHORTEST = 256
"""Bytes of the shortest piece that is kept as a content: a shorter one is in its own row."""
LEVEL = 1
"""Higher levels take several times as long, and save a few percent."""

CONTENT_TABLES = (
    # `uses`: pieces that have it. `size`: bytes; `data` is compressed if it is shorter.
    "CREATE TABLE contents ("
    "id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, uses INTEGER NOT NULL, size INTEGER NOT NULL,"
    " data BLOB NOT NULL, checksum INTEGER)",
    "CREATE TRIGGER contents_unused AFTER DELETE ON pieces WHEN old.content IS NOT NULL BEGIN"
    " UPDATE contents SET uses = uses - 1 WHERE id = old.content;"
    " DELETE FROM contents WHERE id = old.content AND uses <= 0; END",
)


def put_content(connection: sqlite3.Connection, data: bytes) -> int | None:
    """The number of the content that has these bytes, with one more use; None if they are too few."""
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
    """The bytes of a piece. `size`: those of its content, if it has one."""
    return data if size is None or len(data) == size else zlib.decompress(data)
