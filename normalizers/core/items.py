"""Input and output of a parser: its context and limits, and the items it emits."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeAlias

import msgspec

from tooltap.normalizers.wire.framing import MAX_LINE_BYTES
from tooltap.protocol.events import Event, EventHead, decode, encode, head_of
from tooltap.protocol.filters import meta_of


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one stream's parser."""

    line_bytes: int = MAX_LINE_BYTES
    depth: Annotated[int, msgspec.Meta(ge=1, le=300)] = 200
    """Nesting of one line; at most 300, because code that reads a value may call itself for each level."""
    string_bytes: int = 65_536
    """Maximum length of a string inside an event, in UTF-8 bytes; an output body holds the whole of a longer one."""
    event_bytes: int = 512 * 1024
    view_bytes: int = 1_024
    """Maximum size of the model view that an event holds inline, in UTF-8 bytes; an output body holds more."""
    view_blocks: int = 64
    """Maximum number of content blocks of the model view; an output body holds all further ones together."""
    open_calls: int = 10_000
    shared_ids: int = 16
    """Maximum number of open calls of a session that have one id on the wire: each line of one is compared with all."""
    call_bytes: int = 2 * 1024 * 1024
    """Maximum memory of all open calls together, in bytes."""
    tombstones: int = 4_096
    open_texts: int = 64
    """Maximum number of texts being received at once; each holds at most `string_bytes`."""
    open_permissions: int = 1_024
    open_turns: int = 256
    held_lines: int = 50
    """Maximum number of lines that `auto` holds before it gives up; lines of an array are exempt."""
    held_bytes: int = 65_536
    """Maximum size of the lines that `auto` holds, in bytes."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a parser is given before the first line."""

    stream: str
    provider: str | None = None
    """Stated by the publisher; takes precedence over what the stream states."""
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()
    """MCP servers that the publisher names, for streams that do not state them."""
    prompt: str | None = None
    """The agent's prompt, where the publisher knows it, as long as no event has it."""
    partials: bool = False
    limits: Limits = Limits()


class Produced(msgspec.Struct):
    """An encoded event, with the fields that later stages need, so that it is not decoded again."""

    body: bytes
    """The encoded event, without `seq` and newline."""
    kind: str
    id: str
    stream: str
    session: str
    provider: str
    agent: str | None
    parent: str | None
    turn: str | None
    ts: int | None
    tool: str | None
    """The canonical tool, for the kinds that name one."""
    raw_tool: str | None
    partial: bool
    synthetic: bool
    replay: bool
    fields: Any
    """The kind's own fields, by their names in the event's class. Dropped when the event is stored."""
    decoded: EventHead | None = None
    """The head, cached after its first use."""
    host: str | None = None
    """The remote that the event comes from; None: this machine, where no event says so."""

    @classmethod
    def of(cls, event: Event, body: bytes | None = None) -> Self:
        """Make one from an event. `body`: its encoded form, if there is one already."""
        meta = meta_of(event)
        return cls(
            encode(event) if body is None else body,
            meta.kind,
            event.id,
            event.stream,
            event.session,
            event.provider,
            event.agent,
            event.parent,
            event.turn,
            event.ts,
            meta.tool,
            meta.raw_tool,
            getattr(event, "partial", False),
            event.synthetic,
            event.replay,
            event,
            host=event.host,
        )

    @property
    def head(self) -> EventHead:
        """The head of the event, decoded once for all that need it."""
        if self.decoded is None:
            self.decoded = head_of(self.body)
        return self.decoded

    @property
    def event(self) -> Event:
        """The decoded event. Decoding is expensive: use it only for rare events that are needed whole."""
        return decode(self.body)


class OutputChunk(msgspec.Struct, frozen=True):
    """Bytes to append to an output body; those of one body come in order, without gaps."""

    output_id: str
    offset: int
    data: bytes
    mime_type: str


Item: TypeAlias = Produced | OutputChunk
"""An event (with `partial` true: live only) or bytes of an output body."""
