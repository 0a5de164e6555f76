"""Encodes the entries of an outbox as records of a tapped stream, for the socket and for a spool."""

from __future__ import annotations

import msgspec

from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import write_tapped

__all__ = ["JOURNAL_REPLACED", "TORN", "encode", "encode_end", "encode_lost"]

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
