"""Encodes the entries of an outbox as records of a tapped stream, for the socket and for a spool.

In a spool a record has the number of its last line and a checksum before it: `<CRC-32 in hex> <last line> <record>` and
a newline. So a record that is zeroed, flipped, torn or missing is noticed, and the next intact one says how many lines
are gone.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Lost, read_tapped, write_tapped

JOURNAL_REPLACED = "the daemon's journal was replaced"
"""Why acknowledged lines are lost: the daemon that acknowledged them had another journal."""
TORN = "the publisher was killed in the middle of a line"


def encode(entry: Entry) -> bytes:
    if entry.line is None:
        return encode_lost(entry.lines, entry.size, entry.reason)
    if isinstance(entry.line, LongLine):
        return write_tapped(entry.line.head, entry.t, entry.direction, size=entry.line.size) + b"\n"
    return write_tapped(entry.line, entry.t, entry.direction) + b"\n"


def encode_end(t: int | None) -> bytes:
    """Encode the end of the stream. `t`: when the agent ended, if that is known."""
    return msgspec.json.encode({"op": "end"} if t is None else {"op": "end", "t": t}) + b"\n"


def encode_lost(lines: int, size: int, reason: str) -> bytes:
    """Encode the loss of `lines` lines, together `size` bytes."""
    return msgspec.json.encode({"op": "lost", "lines": lines, "bytes": size, "reason": reason}) + b"\n"


DAMAGED = "the spool is damaged"
"""Why lines of a spool are lost that was whole once."""
READ = 65_536
LOST = b'{"op":"lost"'
CRC = 8

_START = re.compile(rb'(?:[0-9a-f]{8} \d+ )?\{"(?:t|dir|line|b64|op)":')


class Record(NamedTuple):
    last: int
    """Number of its last line."""
    lines: int
    """Lines of the stream that it covers."""
    data: bytes


def frame(record: bytes, last: int) -> bytes:
    """`record`: with its newline."""
    numbered = b"%d %b" % (last, record)
    return b"%08x %b" % (zlib.crc32(numbered), numbered)


def unframe(piece: bytes) -> Record | None:
    """Return the record; None if the piece is not an intact record."""
    if piece[CRC : CRC + 1] != b" " or piece[:CRC] != b"%08x" % zlib.crc32(numbered := piece[CRC + 1 :]):
        return None
    last, _, data = numbered.partition(b" ")
    lines = 1
    if data.startswith(LOST):  # inside a string the quotes would be escaped
        record = read_tapped(data)
        lines = record.lines if isinstance(record, Lost) else 1
    return Record(int(last), lines, data)


def intact(piece: bytes) -> bytes:
    """Return the last record in a piece of several, where the newline before it is damaged. No string in a record can
    look like the start of one, because its quotes are escaped."""
    starts = [found.start() for found in _START.finditer(piece, 1)]
    return piece[starts[-1] :] if starts else b""


def pieces(file: int, offset: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield what each newline ends, and last what none ends, with its length. No record has a zero byte: what is before
    one is left out, as it may be as long as the file."""
    parts: list[bytes] = []
    size = 0
    while part := os.pread(file, min(READ, end - offset), offset):
        offset += len(part)
        *whole, rest = part.split(b"\n")
        for one in [*(line + b"\n" for line in whole), *([rest] if rest else [])]:
            size += len(one)
            if b"\0" in one:
                parts.clear()
            parts.append(one[one.rfind(b"\0") + 1 :])
            if one.endswith(b"\n"):
                yield b"".join(parts), size
                parts, size = [], 0
    if size:
        yield b"".join(parts), size
