"""What goes into a parser and what comes out of it: context, limits, items."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tooltap.normalizers.wire.framing import MAX_LINE_BYTES
from tooltap.protocol.events import Event

__all__ = ["Context", "Item", "Limits", "OutputChunk"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one stream's parser; all configurable."""

    line_bytes: int = MAX_LINE_BYTES
    depth: int = 200
    """Nesting of one line."""
    string_bytes: int = 65_536
    """UTF-8 bytes of a string inside an event; an output body holds the whole of a longer one."""
    event_bytes: int = 512 * 1024
    open_calls: int = 10_000
    call_bytes: int = 2 * 1024 * 1024
    """Bytes that all open calls together may remember of their inputs."""
    tombstones: int = 4_096
    open_texts: int = 64
    """Blocks being received at once; each keeps at most `string_bytes`."""
    open_permissions: int = 1_024
    open_turns: int = 256
    held_lines: int = 20
    """Lines `auto` may hold before it gives up, unless they are of an array, …"""
    held_bytes: int = 65_536
    """… and their bytes."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a parser knows before the first line."""

    stream: str
    provider: str | None = None
    """Stated by the publisher; takes precedence over what the stream states."""
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()
    """MCP servers that the publisher names, where the stream does not."""
    partials: bool = False
    limits: Limits = Limits()


class OutputChunk(msgspec.Struct, frozen=True):
    """Bytes to append to an output body; those of one body come in order, without gaps."""

    output_id: str
    offset: int
    data: bytes
    mime_type: str


Item: TypeAlias = Event | OutputChunk
"""An event (with `partial` true: live only) or bytes of an output body."""
