"""The checksum of every row: what is read is what was written, or it is not served.

Each row has one of its own, not each commit. A reader with a filter reads some events of many commits, and a request
for an event reads one: they verify what they read without the rest. And the checksum of a commit would not say which of
its rows is damaged.

A checksum covers every column of its row, so that a changed number or name is noticed too, and it begins with a number
of its table: a row of one table is never a row of another. What no row can say is that another is gone. Events are
numbered without a hole, and `meta` has their number; the rows of a stream's tail count its lines; `tip.py` tells of
commits that are gone.

An event's is made for reading: a CRC-32 of its body, to which SQL adds the columns, so that one call verifies many.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from zlib import crc32

import msgspec

from tooltap.protocol import inputs

__all__ = [
    "EVENT_CHECK",
    "EVENT_SUM",
    "SEEDS",
    "STREAM_SUM",
    "SUMS",
    "add_functions",
    "event_sum",
    "lines_of",
    "piece_sum",
    "row_sum",
    "stream_sum",
    "tail_sum",
    "wrong_events",
]

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
"""Table -> what the checksum of a row covers, `row_sum`. Those of events, pieces and tails are made in other ways."""

SEEDS = {name: crc32(f"tooltap {name}".encode()) for name in (*SUMS, "tail")}

SOURCE, LABEL = 1_000_003, 15_485_863
"""Factors of columns, so that no exchange of their values goes unnoticed."""
START, NEWLINES, CONTENT = 1_000_003, 15_485_863, 32_452_843

_AGENT = "CASE WHEN agent IS NULL THEN 0 ELSE crc_of(CAST(agent AS BLOB)) END"
_COLUMNS = f"seq + source * {SOURCE} + label * {LABEL} + {_AGENT}"
EVENT_CHECK = f"checksum - ({_COLUMNS})"
"""What the CRC-32 of an event's body must be."""
EVENT_SUM = f"crc_of(body) + {_COLUMNS}"
STREAM_SUM = "row_sum('streams', stream, {state}, lines, {updated}, {expired}, followed, info)"
"""To be formatted with the columns, or with what they become."""

_encode = msgspec.msgpack.Encoder().encode
_tail_decoder = msgspec.msgpack.Decoder(list[inputs.Input])


def row_sum(table: str, *values: int | str | bytes | None) -> int:
    return crc32(_encode(values), SEEDS[table])


def event_sum(seq: int, source: int, label: int, agent: str | None, body: bytes) -> int:
    of_agent = 0 if agent is None else crc32(agent.encode())
    return crc32(body) + seq + source * SOURCE + label * LABEL + of_agent


def piece_sum(body: int, start: int, newlines: int, data: bytes, content: int | None) -> int:
    """`data`: the bytes themselves, wherever they are and however packed."""
    return crc32(data) + body + start * START + newlines * NEWLINES + (content or 0) * CONTENT


def stream_sum(stream: str, state: str, lines: int, updated: int, followed: int, info: bytes, expired: int = 0) -> int:
    return row_sum("streams", stream, state, lines, updated, expired, followed, info)


def tail_sum(stream: str, base: int, records: bytes) -> int:
    """`base`: how many lines the stream had before these, so that no row is missing, and none is in another's place."""
    return row_sum("tail", stream, records) + base


def lines_of(records: bytes) -> int:
    """How many lines a row of a tail has."""
    return sum(map(inputs.lines_of, _tail_decoder.decode(records)))


def wrong_events(bodies: Sequence[bytes], checks: Sequence[int]) -> bool:
    """Whether one of these bodies is not what its row's checksum says."""
    try:
        return list(map(crc32, bodies)) != list(checks)
    except TypeError:  # a column of another type
        return True


def add_functions(connection: sqlite3.Connection) -> None:
    """What statements call: `crc_of(bytes)`, and `row_sum(table, value, …)`."""
    connection.create_function("crc_of", 1, crc32, deterministic=True)
    connection.create_function("row_sum", -1, row_sum, deterministic=True)
