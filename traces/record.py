"""The trace record: one raw line and where it came from, as one JSON line."""

from __future__ import annotations

import msgspec

from tooltap.protocol.tapped import Direction

__all__ = ["TraceRecord"]

WIRE_NAMES = {"agent_version": "agentVersion", "size": "bytes"}


class TraceRecord(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, rename=WIRE_NAMES):
    v: int
    """Always 1. The ancestor's records have a `kind` beside it, ours never do."""
    t: int | None = None
    """Milliseconds since the epoch at which the line was received."""
    stream: str
    dialect: str | None = None
    provider: str | None = None
    agent_version: str | None = None
    n: int
    """1-based number of the line in its stream."""
    dir: Direction | None = None
    line: str | None = None
    b64: bytes | None = None
    """In place of `line` for bytes that are not UTF-8; base64 in the file."""
    size: int | None = None
    """Length of the whole line, where it was too long and only its beginning is here."""
    masked: bool = False
    """Secrets were taken out."""

    @property
    def raw(self) -> bytes:
        return (self.b64 or b"") if self.line is None else self.line.encode()
