"""Events, schema v2: one msgspec struct per kind, told apart by `kind`.

Envelope keys are camelCase on the wire; keys inside `input` and `output` keep the names of the tool payloads
(`file_path`, `exit_code`, see `tools.py`). Absent means not known: a field at its default is not written, and `null`
never is. Clients ignore keys, kinds and values they do not know.

`encode` gives an event's line without `seq`; the journal puts `seq` in front of these bytes when it delivers them
(`with_seq`), so that an event is encoded once for all subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

__all__ = [
    "AnyEvent",
    "Attachment",
    "Chunk",
    "Display",
    "KINDS",
    "Event",
    "Message",
    "Notice",
    "OutputRef",
    "PermissionRequest",
    "PermissionResponse",
    "Reasoning",
    "SessionEvent",
    "ToolCall",
    "ToolResult",
    "ToolUpdate",
    "Turn",
    "Unparsed",
    "Usage",
    "decode",
    "encode",
    "event_lines",
    "with_seq",
]

CallStatus: TypeAlias = Literal["pending", "running", "awaiting-permission"]
ResultStatus: TypeAlias = Literal["completed", "failed", "denied", "cancelled", "interrupted"]


class OutputRef(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Where the whole of a string that was cut lies; fetched with the `output` request."""

    output_id: str
    bytes: int
    """Length of the whole body in bytes (UTF-8)."""
    lines: int
    """Lines of the whole body: newlines, plus one for an unterminated last line."""
    mime_type: str


class Attachment(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """An image, a document or a link beside a message or result: `output_id` (a body we keep) or `uri`."""

    mime_type: str
    output_id: str | None = None
    uri: str | None = None
    bytes: int | None = None
    name: str | None = None


class Display(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What the user sees of a result, where it differs from what the model saw."""

    origin: Literal["provider", "rule", "rewriter"]
    text: str | None = None
    output_id: str | None = None
    mime_type: str | None = None
    type: str | None = None
    """Of a display tool's output: `file`, `command` or `image`."""
    path: str | None = None
    language: str | None = None
    """For highlighting, a name as Pygments has it."""
    bytes: int | None = None
    """Length of the body."""
    lines: int | None = None


class Chunk(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A piece of running output, live only."""

    stream: str
    """`stdout`, `stderr`, or `output` where the provider merges them."""
    text: str
    offset: int
    """Code points of the same stream before this piece."""


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", tag_field="kind"):
    """The envelope: what every kind carries."""

    v: int
    """Always 2."""
    id: str
    """`<stream>:<line>:<index>`; `c` after the line for events made by closing, `d` for those made by no line."""
    stream: str
    line: int
    """1-based number of the stream's line the event came from; 0 when no line was read."""
    session: str
    """The root session: the provider's id once it is seen, else the publisher's name for it, else the stream id."""
    protocol: str
    """The wire family: acp, codex, claude, gemini, opencode, openai, or the agent's own name."""
    provider: str
    dialect: str
    seq: int | None = None
    """Journal cursor, put in front at delivery; absent on partials and in `tooltap normalize`."""
    ts: int | None = None
    """Milliseconds since the epoch: the provider's own time, else the time of receipt."""
    agent: str | None = None
    """The provider's id of the subagent, else the call that spawned it; absent for the main agent."""
    parent: str | None = None
    """Call id of the call that spawned the subagent."""
    turn: str | None = None
    synthetic: bool = False
    """We inferred the event: a start never seen, a call closed at the end."""
    replay: bool = False
    """History the agent sent again."""
    outputs: dict[str, OutputRef] | None = None
    """JSON pointer into this event -> the whole of a string that was cut there."""


class SessionEvent(Event, tag="session"):
    """A session began, went on, or something about it changed; only what is new is filled."""

    state: Literal["started", "resumed", "updated", "ended"]
    cwd: str | None = None
    model: str | None = None
    mode: str | None = None
    title: str | None = None
    agent_version: str | None = None
    tools: list[str] | None = None
    commands: list[str] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    """`{name, status?}` each."""
    alias: str | None = None
    """The name earlier events of this session carry, when its id came late."""


class Turn(Event, tag="turn"):
    state: Literal["started", "completed", "failed", "cancelled"]
    reason: str | None = None
    """The provider's own word (`end_turn`, `error_max_turns`, …)."""
    duration_ms: int | None = None


class Message(Event, tag="message"):
    """One block of text by one author, whole; with `partial`, a live preview of a part of it."""

    role: Literal["user", "assistant", "system"]
    text: str
    message_id: str | None = None
    block: int | None = None
    attachments: list[Attachment] | None = None
    partial: bool = False
    offset: int | None = None
    """Partials only: code points of the block before this piece."""


class Reasoning(Event, tag="reasoning"):
    text: str
    message_id: str | None = None
    block: int | None = None
    partial: bool = False
    offset: int | None = None


class ToolCall(Event, tag="tool-call"):
    call_id: str
    name: str
    """Canonical tool name, or the provider's name unchanged."""
    input: dict[str, Any]
    """The canonical tool's input with `_happy` and `_raw` (see `tools.py`)."""
    status: CallStatus
    title: str | None = None
    preview: str | None = None
    """At most 40 code points of the telling argument, one line."""


class ToolUpdate(Event, tag="tool-update"):
    """What changed of an open call; `input` is the whole new input. As a partial, a `chunk` of its output."""

    call_id: str
    name: str
    input: dict[str, Any] | None = None
    status: CallStatus | None = None
    title: str | None = None
    preview: str | None = None
    progress: dict[str, Any] | None = None
    """`{text?, data?}`."""
    display: Display | None = None
    chunk: Chunk | None = None
    partial: bool = False


class ToolResult(Event, tag="tool-result"):
    call_id: str
    name: str
    output: dict[str, Any]
    """The canonical tool's result with `_happy` and `_raw`; `errorMessage` on every result that is not completed."""
    status: ResultStatus
    is_error: bool
    """True exactly for `failed`."""
    duration_ms: int | None = None
    attachments: list[Attachment] | None = None
    display: Display | None = None
    silent: bool = False
    """The user is shown nothing of it, unless asking for the assistant view."""
    ask: bool = False
    """The user is shown its title alone, until asking for more."""
    assistant_view: Literal["unknown"] | None = None
    """`unknown` where the wire has only what the user saw."""
    async_: bool = msgspec.field(default=False, name="async")
    """The result only acknowledges background work; the real end follows with `final`."""
    final: bool = False
    replaces: str | None = None
    """Id of the synthetic result this real one takes the place of."""


class PermissionRequest(Event, tag="permission-request"):
    permission_id: str
    type: Literal["permission", "question", "elicitation"]
    call_id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    title: str | None = None
    options: list[dict[str, Any]] | None = None
    """`{id, name, kind}` each."""
    questions: list[dict[str, Any]] | None = None


class PermissionResponse(Event, tag="permission-response"):
    permission_id: str
    outcome: Literal["allowed", "denied", "cancelled", "answered", "expired"]
    call_id: str | None = None
    option_id: str | None = None
    by: Literal["user", "policy", "hook", "agent"] | None = None
    answers: dict[str, Any] | None = None
    message: str | None = None


class Usage(Event, tag="usage"):
    """Tokens and cost. `input_tokens` is the whole prompt, cache reads and writes included."""

    scope: Literal["step", "turn", "session"]
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Part of `output_tokens`."""
    cost_usd: float | None = None
    cost_scope: Literal["step", "turn", "session"] | None = None
    """Where the cost covers something else than the tokens."""
    context_used: int | None = None
    context_size: int | None = None


class Notice(Event, tag="notice"):
    level: Literal["info", "warning", "error"]
    code: str
    """Open set: retry, rate-limit, hook, compaction, rewound, interrupt, provider-error, mcp-startup, config,
    parser-reset, lost."""
    text: str
    call_id: str | None = None
    data: dict[str, Any] | None = None


class Unparsed(Event, tag="unparsed"):
    """A line that could not be read or is not known; `text` is its beginning."""

    reason: str
    text: str
    bytes: int
    """Length of the line."""


AnyEvent: TypeAlias = (
    SessionEvent
    | Turn
    | Message
    | Reasoning
    | ToolCall
    | ToolUpdate
    | ToolResult
    | PermissionRequest
    | PermissionResponse
    | Usage
    | Notice
    | Unparsed
)

KINDS: dict[type[Event], str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(AnyEvent)}

encode: Callable[[Event], bytes] = msgspec.json.Encoder().encode
"""The event as one JSON object, without newline."""

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def decode(line: bytes | str) -> AnyEvent:
    """Read one event line. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    return _decoder.decode(line)


def event_lines(events: Sequence[tuple[int | None, bytes]]) -> bytes:
    """(`seq`, None for a partial; the encoded event) as they are delivered: each with its journal cursor, if it has
    one, and a newline."""
    stored = [value for seq, body in events if seq is not None for value in (seq, body[1:])]
    if len(stored) == 2 * len(events):  # nearly always; formatted all at once they cost a quarter less
        return b'{"seq":%d,%b\n' * len(events) % tuple(stored)
    return b"".join([body + b"\n" if seq is None else with_seq(seq, body) + b"\n" for seq, body in events])


def with_seq(seq: int, body: bytes) -> bytes:
    """An encoded event with its journal cursor as first key."""
    return b'{"seq":%d,%b' % (seq, body[1:])
