"""Display events: what a user interface shows of a stream, the same kinds whichever agent it came from.

One struct per kind, told apart by `kind`; each shows one event and carries its `seq`, so that cursors are those of
events. All strings are plain: colours, glyphs and layout are the renderer's. Clients ignore kinds and keys they do not
know, for more will come.

`kind` is `text`, `reasoning`, `prompt`, `tool_use`, `tool_update`, `tool_result`, `permission` or `notice`.
`tooltap.normalizers.stream.display` makes them of events; a subscription with `"as":"display"` delivers them.
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
    """What every kind carries; the fields mean what they mean in the event (`tooltap.protocol.events`)."""

    id: str
    """Of the event that is shown."""
    stream: str
    session: str
    provider: str
    seq: int | None = None
    """The cursor. The whole event is fetched by it with the `event` request. Absent on partials."""
    ts: int | None = None
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    outputs: dict[str, OutputRef] | None = None
    """JSON pointer into this display event -> the whole of a string that was cut there."""
    partial: bool = False
    """A live preview; the whole follows."""


class DisplayText(DisplayEvent, tag="text"):
    """What an assistant said: one block, verbatim. Concatenated, these are the session's text."""

    text: str
    offset: int | None = None
    """Partials only: code points of the block before this piece."""
    attachments: list[Attachment] | None = None


class DisplayReasoning(DisplayEvent, tag="reasoning"):
    """What an assistant thought, where the agent tells."""

    text: str
    offset: int | None = None


class DisplayPrompt(DisplayEvent, tag="prompt"):
    """What the assistant was told."""

    role: Literal["user", "system"]
    text: str
    attachments: list[Attachment] | None = None


class DisplayToolUse(DisplayEvent, tag="tool_use"):
    """A tool was called."""

    call_id: str
    name: str
    """Canonical tool name, or the provider's name unchanged."""
    arg: str = ""
    """The telling argument, one line of at most 40 code points; empty where there is none, or it comes later."""


class DisplayToolUpdate(DisplayEvent, tag="tool_update"):
    """What is new of a call: its argument, how far it is, its running output (partial), its display view."""

    call_id: str
    name: str
    arg: str | None = None
    status: CallStatus | None = None
    progress: dict[str, Any] | None = None
    display: Display | None = None
    chunk: Chunk | None = None


class DisplayToolResult(DisplayEvent, tag="tool_result"):
    """A call has ended. The user sees `display`; without one, `output`; neither of a silent result, and of one to be
    asked for not before the whole event is fetched by its `seq`."""

    call_id: str
    name: str
    status: ResultStatus
    exit_code: int | None = None
    duration_ms: int | None = None
    error: str | None = None
    """The provider's words on a result that is not completed."""
    display: Display | None = None
    output: dict[str, Any] | None = None
    """The canonical tool's result: what the model saw, unless `assistant_view` says otherwise."""
    assistant_view: Literal["unknown"] | None = None
    silent: bool = False
    ask: bool = False
    attachments: list[Attachment] | None = None
    async_: bool = msgspec.field(default=False, name="async")
    final: bool = False
    replaces: str | None = None


class DisplayPermission(DisplayEvent, tag="permission"):
    """A permission, an answer or a form was asked for, or the matter is settled."""

    permission_id: str
    state: Literal["requested", "allowed", "denied", "cancelled", "answered", "expired"]
    call_id: str | None = None
    name: str | None = None
    """Of the tool; of what else is asked for, `question` or `elicitation`."""
    title: str | None = None
    by: Literal["user", "policy", "hook", "agent"] | None = None
    message: str | None = None


class DisplayNotice(DisplayEvent, tag="notice"):
    """Something to know; also a turn that did not end well (`turn`), and a line that could not be read
    (`unparsed`)."""

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
    """The display event as one JSON object, without newline."""
    return _encoder.encode(event)


def decode_display(line: bytes | str) -> AnyDisplayEvent | None:
    """Read one line; None for a kind this version does not know. Raises `msgspec.DecodeError`."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        return None
