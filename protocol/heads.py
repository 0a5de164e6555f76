"""The head of an event: the fields by which events are listed, joined, counted and filtered, decoded without the rest.

    head = head_of(body)
    head.kind, head.key, head.tool      # decoded at once
    head.text, head.payload             # what may be long is decoded when it is asked for

An event has one head. Whoever carries the event's bytes decodes its head once and keeps it (`head` of a produced and of
a stored event).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tooltap.protocol.events import Chunk

__all__ = ["CallKey", "EventHead", "head_of", "raw_tool_of"]

CallKey: TypeAlias = tuple[str, str]
"""Stream and call id; the call id is empty for an event without a call."""
_NONE = msgspec.Raw()


class EventHead(msgspec.Struct, rename="camel"):
    """Fields of all kinds of event; a field that the kind does not have is at its default."""

    kind: str
    id: str = ""
    stream: str = ""
    line: int = 0
    session: str = ""
    provider: str = ""
    dialect: str = ""
    ts: int | None = None
    agent: str | None = None
    parent: str | None = None
    replay: bool = False
    synthetic: bool = False
    call_id: str | None = None
    permission_id: str | None = None
    name: str | None = None
    """The canonical tool."""
    preview: str | None = None
    title: str | None = None
    """Of a session, a call or a request."""
    state: str | None = None
    """Of a turn or a session: `started`, or how it ended."""
    status: str | None = None
    """Of a call, an update, or a result."""
    outcome: str | None = None
    """Of a response to a permission request."""
    scope: str | None = None
    """Of usage."""
    is_error: bool = False
    async_: bool = msgspec.field(default=False, name="async")
    replaces: str | None = None
    duration_ms: int | None = None
    role: str | None = None
    message: str | None = None
    message_id: str | None = None
    block: int | None = None
    offset: int | None = None
    model: str | None = None
    cwd: str | None = None
    alias: str | None = None
    text_json: msgspec.Raw = msgspec.field(default=_NONE, name="text")
    input_json: msgspec.Raw = msgspec.field(default=_NONE, name="input")
    chunk_json: msgspec.Raw = msgspec.field(default=_NONE, name="chunk")
    output_json: msgspec.Raw = msgspec.field(default=_NONE, name="output")

    @property
    def key(self) -> CallKey:
        """The key of the event's call."""
        return self.stream, self.call_id or ""

    @property
    def is_end(self) -> bool:
        """Whether the call has ended: it has a result that is not only the acknowledgement of background work."""
        return self.kind == "tool-result" and not self.async_

    @property
    def call_state(self) -> str | None:
        """The state of the call after this event; None if it does not change."""
        if self.kind == "permission-request":
            return "awaiting-permission"
        if self.kind == "permission-response":
            return "running" if self.outcome in ("allowed", "answered") else None
        return self.status if self.kind != "tool-result" or self.is_end else None

    @property
    def text(self) -> str:
        """The text of a message, of reasoning, a notice or an unparsed line; else empty."""
        return _texts.decode(self.text_json) if self.text_json else ""

    @property
    def chunk(self) -> Chunk | None:
        """What a running tool printed; only in partials."""
        return _chunks.decode(self.chunk_json) if self.chunk_json else None

    @property
    def payload(self) -> dict[str, msgspec.Raw]:
        """The values of the input or the output of a call, still encoded; empty if there is none."""
        payload = self.input_json or self.output_json
        return _payloads.decode(payload) if payload else {}

    @property
    def tool(self) -> str | None:
        """The canonical tool, as filters call it."""
        return self.name

    @property
    def raw_tool(self) -> str | None:
        """The provider's name of the tool, if it is another."""
        return raw_tool_of(self.payload)


class _Happy(msgspec.Struct, rename="camel"):
    raw_tool_name: str | None = None


_heads = msgspec.json.Decoder(EventHead)
_chunks = msgspec.json.Decoder(Chunk)
_texts = msgspec.json.Decoder(str)
_payloads: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_happy = msgspec.json.Decoder(_Happy)


def head_of(body: bytes) -> EventHead:
    """Decode the head of an encoded event, with or without its `seq`. Raises `msgspec.DecodeError`."""
    return _heads.decode(body)


def raw_tool_of(payload: dict[str, msgspec.Raw]) -> str | None:
    """Return the provider's name of the tool that a payload is of, if it is another than the canonical one."""
    happy = payload.get("_happy")
    if happy is None:
        return None
    try:
        return _happy.decode(happy).raw_tool_name
    except msgspec.DecodeError:  # not ours
        return None
