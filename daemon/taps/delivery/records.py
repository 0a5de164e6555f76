"""Encodes the entries of an outbox as records of a tapped stream, for the socket and for a spool."""

from __future__ import annotations

import msgspec

from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.tapped import write_tapped

__all__ = ["END", "JOURNAL_REPLACED", "encode", "encode_lost"]

END = b'{"op":"end"}\n'
JOURNAL_REPLACED = "the daemon's journal was replaced"
"""Why acknowledged lines are lost: the daemon that acknowledged them had another journal."""


def encode(entry: Entry) -> bytes:
    if entry.line is None:
        return encode_lost(entry.lines, entry.size, entry.reason)
    if isinstance(entry.line, LongLine):
        return write_tapped(entry.line.head, entry.t, entry.direction, size=entry.line.size) + b"\n"
    return write_tapped(entry.line, entry.t, entry.direction) + b"\n"


def encode_lost(lines: int, size: int, reason: str) -> bytes:
    """Encode the loss of `lines` lines, together `size` bytes."""
    return msgspec.json.encode({"op": "lost", "lines": lines, "bytes": size, "reason": reason}) + b"\n"
