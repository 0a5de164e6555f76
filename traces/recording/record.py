"""The trace record: one raw line and where it came from, as one JSON line; or what else happened to its stream."""

from __future__ import annotations

from typing import Literal

import msgspec

from tooltap.protocol.tapped import Direction

__all__ = ["Told", "TraceRecord"]

WIRE_NAMES = {"agent_version": "agentVersion", "size": "bytes", "mcp_servers": "mcpServers"}


class Told(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, rename=WIRE_NAMES):
    """What the publisher told of its stream when it began: without it the same lines give other events."""

    provider: str | None = None
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()


class TraceRecord(msgspec.Struct, kw_only=True, omit_defaults=True, rename=WIRE_NAMES):
    v: int
    """Always 1. The ancestor's records have a `kind` beside it, ours never do."""
    t: int | None = None
    """Milliseconds since the epoch at which the line was received."""
    stream: str
    dialect: str | None = None
    """None where the first lines of the stream did not tell, and none was asked for."""
    provider: str | None = None
    agent_version: str | None = None
    told: Told | None = None
    n: int
    """1-based number of the line in its stream; of a mark, of the last line before its end."""
    dir: Direction | None = None
    line: str | None = None
    b64: bytes | None = None
    """In place of `line` for bytes that are not UTF-8; base64 in the file."""
    size: int | None = None
    """Length of the whole line, where it was too long and only its beginning is here; bytes of lost lines."""
    masked: bool = False
    """Secrets were taken out."""
    op: Literal["lost", "close"] | None = None
    """A mark in place of a line: the publisher lost lines; the stream ended."""
    lines: int | None = None
    """How many lines were lost."""
    reason: str | None = None
    """Of a mark."""

    @property
    def raw(self) -> bytes:
        return (self.b64 or b"") if self.line is None else self.line.encode()
