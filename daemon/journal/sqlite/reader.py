"""Reading open calls and output bodies: each function is one short query on a connection of its own, in a
reader thread.

No function leaves a SQLite cursor open when it returns: an open cursor pins the write-ahead log, which then grows
without bound.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any, Literal

import msgspec

from tooltap.daemon.journal.interface import CorruptError, OutputSlice
from tooltap.daemon.journal.slices import MAX_SLICE, whole_lines
from tooltap.daemon.journal.sqlite.checksums import piece_sum, row_sum
from tooltap.daemon.journal.sqlite.contents import unpacked
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt, read_again
from tooltap.daemon.sessions.projection import CALL, PERMISSION

__all__ = ["open_calls", "read_output"]


def open_calls(
    connection: sqlite3.Connection, session: str | None, stream: str | None, damages: Damages
) -> dict[str, list[dict[str, Any]]]:
    rows = damages.rows(
        connection,
        "calls",
        "SELECT stream, kind, id, session, seq, data, checksum FROM calls{}"
        " WHERE (?1 IS NULL OR session=?1) AND (?2 IS NULL OR stream=?2) ORDER BY seq",
        (session, stream),
    )
    found: dict[str, list[dict[str, Any]]] = {CALL: [], PERMISSION: []}
    for *values, checksum in rows:
        if damages.is_intact("calls", values, checksum):
            of_stream, kind, _, of_session, seq, data = values
            found[kind].append({"stream": of_stream, "session": of_session, "seq": seq, **msgspec.json.decode(data)})
    return {"calls": found[CALL], "permissions": found[PERMISSION]}


_PIECE = (
    "pieces.body, start, newlines, coalesce(contents.data, pieces.data), size, content, pieces.checksum"
    " FROM pieces LEFT JOIN contents ON contents.id=content"
)


def read_output(
    connection: sqlite3.Connection, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
) -> OutputSlice | None:
    """Raises `CorruptError`."""
    try:
        return read_again(lambda: _read_output(connection, output_id, offset, length, unit))
    except Exception as error:
        if not is_corrupt(error):
            raise
        raise _corrupt(output_id) from None


def _corrupt(output_id: str) -> CorruptError:
    return CorruptError(f"output {output_id} is damaged in the journal")


def _read_output(
    connection: sqlite3.Connection, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
) -> OutputSlice | None:
    body = connection.execute(
        "SELECT id, output_id, stream, mime_type, bytes, newlines, terminated, checksum FROM bodies WHERE output_id=?",
        (output_id,),
    ).fetchone()
    if body is None:
        return None
    if body[-1] != row_sum("bodies", *body[:-1]):
        raise _corrupt(output_id)
    key, _, _, mime_type, size, newlines, terminated, _ = body
    if unit == "bytes":
        data = _bytes(connection, key, offset, length, size)
        return OutputSlice(data, offset, size, mime_type)
    total = newlines + (size > 0 and not terminated)
    return OutputSlice(_lines(connection, key, offset, length, size), offset, total, mime_type)


def _bytes(connection: sqlite3.Connection, body: int, offset: int, length: int, total: int) -> bytes:
    """A slice of at most `MAX_SLICE` bytes. Raises `ValueError` if a part of it is damaged."""
    end = min(offset + min(length, MAX_SLICE), total)
    if end <= offset:
        return b""
    rows = connection.execute(
        f"SELECT {_PIECE} WHERE pieces.body=?1 AND start<?3 AND start>="
        " (SELECT max(start) FROM pieces WHERE body=?1 AND start<=?2) ORDER BY start",
        (body, offset, end),
    ).fetchall()
    pieces = [_verified_piece(row) for row in rows]
    reached = rows[0][1] if rows else end
    for row, data in zip(rows, pieces, strict=True):
        if row[1] != reached:
            raise ValueError("a piece is missing")
        reached += len(data)
    if not rows or reached < end:
        raise ValueError("a piece is missing")
    return b"".join(pieces)[offset - rows[0][1] : end - rows[0][1]]


def _verified_piece(row: tuple[Any, ...]) -> bytes:
    """Raises `ValueError`."""
    body, start, newlines, packed, size, content, checksum = row
    try:
        data = unpacked(packed, size)
    except zlib.error:
        raise ValueError("a content is damaged") from None
    if checksum != piece_sum(body, start, newlines, data, content):
        raise ValueError("a piece is damaged")
    return data


def _lines(connection: sqlite3.Connection, body: int, offset: int, count: int, size: int) -> bytes:
    """As many whole lines as fit into a slice; the head of the first if it does not fit."""
    start = _start_of_line(connection, body, offset)
    if start is None or count <= 0:
        return b""
    return whole_lines(_bytes(connection, body, start, MAX_SLICE, size), count)


def _start_of_line(connection: sqlite3.Connection, body: int, line: int) -> int | None:
    """Byte offset of a line (0-based); None if there is no such line."""
    if line == 0:
        return 0
    row = connection.execute(
        f"SELECT {_PIECE} WHERE pieces.body=? AND newlines<? ORDER BY start DESC LIMIT 1", (body, line)
    ).fetchone()
    if row is None:
        return None
    _, start, newlines, *_ = row
    data = _verified_piece(row)
    lines = data.split(b"\n", line - newlines)
    return int(start + len(data) - len(lines[-1])) if len(lines) > line - newlines else None
