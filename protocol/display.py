"""Display events: what a user interface shows of a stream, with the same kinds for every agent.

One struct per kind; the key `kind` tells which. Each shows one event and has its `seq`, so cursors are those of events.
All strings are plain: colours, glyphs and layout are up to the renderer. Clients ignore kinds and keys that they do not
know, because more may be added.

`kind` is `text`, `reasoning`, `prompt`, `tool_use`, `tool_update`, `tool_result`, `permission` or `notice`.
`tooltap.daemon.show.skins.display` creates them from events; a subscription with `"as": "display"` delivers them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from tooltap.protocol.events import Attachment, CallStatus, Chunk, Display, OutputRef, ResultStatus

__all__ = [
    "AnyDisplayEvent",
    "DisplayEvent",
    "DisplayNotice",
    "DisplayPermission",
    "DisplayPrompt",
    "DisplayReasoning",
    "DisplayText",
    "DisplayToolResult",
    "DisplayToolUpdate",
    "DisplayToolUse",
    "decode_display",
    "encode_display",
]


class DisplayEvent(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", tag_field="kind"):
    """The keys that every kind has; they mean the same as in the event."""

    id: str
    """The id of the event."""
    stream: str
    session: str
    provider: str
    seq: int | None = None
    """The cursor, and what to request the whole event with; absent in partials."""
    ts: int | None = None
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    outputs: dict[str, OutputRef] | None = None
    """JSON pointer into this display event -> where to find the whole of the string that was cut there."""
    partial: bool = False
    """A live part; the whole follows."""


class DisplayText(DisplayEvent, tag="text"):
    """A text of the assistant: one block, verbatim. All of them together are the text of the session."""

    text: str
    offset: int | None = None
    """Only in partials: code points of the block before this part."""
    attachments: list[Attachment] | None = None


class DisplayReasoning(DisplayEvent, tag="reasoning"):
    """The reasoning of the assistant, if the agent reports it."""

    text: str
    offset: int | None = None


class DisplayPrompt(DisplayEvent, tag="prompt"):
    """A prompt to the assistant."""

    role: Literal["user", "system"]
    text: str
    attachments: list[Attachment] | None = None


class DisplayToolUse(DisplayEvent, tag="tool_use"):
    """A tool was called."""

    call_id: str
    name: str
    """The canonical tool, or the provider's name unchanged."""
    arg: str = ""
    """The one argument that identifies the call, as one line of at most 40 code points; empty if there is none yet."""


class DisplayToolUpdate(DisplayEvent, tag="tool_update"):
    """A change of a call: its argument, its progress, its running output (in partials), what the user sees of it."""

    call_id: str
    name: str
    arg: str | None = None
    status: CallStatus | None = None
    progress: dict[str, Any] | None = None
    display: Display | None = None
    chunk: Chunk | None = None


class DisplayToolResult(DisplayEvent, tag="tool_result"):
    """A call has ended. The user sees `display`, or `output` if there is no `display`. Both are absent if the result is
    `silent`, or if it is `ask`: then request the whole event by its `seq`."""

    call_id: str
    name: str
    status: ResultStatus
    exit_code: int | None = None
    duration_ms: int | None = None
    wait_ms: int | None = None
    """How long the call waited for the user."""
    error: str | None = None
    """The provider's message, if the call did not complete."""
    display: Display | None = None
    output: dict[str, Any] | None = None
    """The payload of the canonical tool."""
    assistant_view: Literal["unknown"] | None = None
    """`unknown` if the stream does not say what the model saw; otherwise the event has it."""
    silent: bool = False
    ask: bool = False
    attachments: list[Attachment] | None = None
    async_: bool = msgspec.field(default=False, name="async")
    final: bool = False
    replaces: str | None = None


class DisplayPermission(DisplayEvent, tag="permission"):
    """A permission, an answer or a form was requested, or the request is resolved."""

    permission_id: str
    state: Literal["requested", "allowed", "denied", "cancelled", "answered", "expired"]
    call_id: str | None = None
    name: str | None = None
    """The name of the tool, or `question` or `elicitation`."""
    title: str | None = None
    by: Literal["user", "policy", "hook", "agent"] | None = None
    message: str | None = None


class DisplayNotice(DisplayEvent, tag="notice"):
    """A notice, a turn that failed or was cancelled (`code` is `turn`), or a line that could not be read (`code` is
    `unparsed`)."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str
    call_id: str | None = None


AnyDisplayEvent: TypeAlias = (
    DisplayText
    | DisplayReasoning
    | DisplayPrompt
    | DisplayToolUse
    | DisplayToolUpdate
    | DisplayToolResult
    | DisplayPermission
    | DisplayNotice
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyDisplayEvent] = msgspec.json.Decoder(AnyDisplayEvent)


def encode_display(event: DisplayEvent) -> bytes:
    """Return the display event as one JSON object, without a newline."""
    return _encoder.encode(event)


def decode_display(line: bytes | str) -> AnyDisplayEvent | None:
    """Decode one line; None for a kind that this version does not know. Raises `msgspec.DecodeError`."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        return None
