"""The record of a trace: one raw line and its origin as one JSON line, or a mark for lost lines or a stream's end."""

from __future__ import annotations

from typing import Literal

import msgspec

from tooltap.protocol.inputs import Direction

WIRE_NAMES = {"agent_version": "agentVersion", "declared": "told", "size": "bytes", "mcp_servers": "mcpServers"}


class Declared(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, rename=WIRE_NAMES):
    """What the publisher declared when the stream began. Without it, the same lines give different events."""

    provider: str | None = None
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()
    prompt: str | None = None
    """Only in the record of the first line."""


class TraceRecord(msgspec.Struct, kw_only=True, omit_defaults=True, rename=WIRE_NAMES):
    v: int
    """Always 1. Records of the ancestor's tracer have a `kind` as well; these never do."""
    t: int | None = None
    """Milliseconds since the epoch at which the line was received."""
    stream: str
    dialect: str | None = None
    """None while the dialect is not recognised and none was requested."""
    provider: str | None = None
    agent_version: str | None = None
    declared: Declared | None = None
    n: int
    """1-based number of the line in its stream; for a mark, the number of the last line before its end."""
    dir: Direction | None = None
    line: str | None = None
    b64: bytes | None = None
    """Replaces `line` for bytes that are not UTF-8; base64 in the file."""
    size: int | None = None
    """Bytes of the whole line, if it was too long and only its head is stored; bytes of lost lines."""
    masked: bool = False
    """Secrets in the line were masked."""
    op: Literal["lost", "close"] | None = None
    """A mark instead of a line: `lost` when the publisher lost lines, `close` when the stream ended."""
    lines: int | None = None
    """How many lines were lost."""
    reason: str | None = None
    """Why lines were lost, or why the stream ended."""

    @property
    def raw(self) -> bytes:
        return (self.b64 or b"") if self.line is None else self.line.encode()
