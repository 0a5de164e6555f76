"""Events, schema 2: one msgspec struct per kind; the key `kind` tells which.

Envelope keys are camelCase on the wire; keys inside `input` and `output` keep the names of the tool payloads
(`file_path`, `exit_code`, see `tools.py`). An absent key means that the value is not known: a field at its default is
not written, and `null` is never written. Clients ignore keys, kinds and values that they do not know.

`encode` returns an event's line without `seq`. The journal puts `seq` in front of these bytes when it delivers them
(`with_seq`), so that an event is encoded once for all subscribers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import msgspec

__all__ = [
    "AnyEvent",
    "Attachment",
    "Chunk",
    "Display",
    "ModelView",
    "KINDS",
    "Event",
    "LineNumbers",
    "Message",
    "ModelUsage",
    "Notice",
    "OutputRef",
    "PermissionRequest",
    "PermissionResponse",
    "QuotaWindow",
    "Reasoning",
    "SessionEvent",
    "ToolCall",
    "ToolResult",
    "ToolUpdate",
    "Turn",
    "Unparsed",
    "Usage",
    "ViewBlock",
    "ViewPart",
    "decode",
    "decode_known",
    "encode",
    "event_lines",
    "numbered_lines",
    "with_seq",
]

CallStatus: TypeAlias = Literal["pending", "running", "awaiting-permission"]
ResultStatus: TypeAlias = Literal["completed", "failed", "denied", "cancelled", "interrupted"]


class OutputRef(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Where to find the whole of a string that was cut: fetch it with the `output` request."""

    output_id: str
    bytes: int
    """Length of the whole body in bytes (UTF-8)."""
    lines: int
    """Lines of the whole body: newlines, plus one for an unterminated last line."""
    mime_type: str


class Attachment(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """An image, a document or a link that belongs to a message or result: `output_id` (a stored body) or `uri`."""

    mime_type: str
    output_id: str | None = None
    uri: str | None = None
    bytes: int | None = None
    name: str | None = None


class Display(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What the user sees of a result, if that differs from what the model saw."""

    origin: Literal["provider", "rule", "rewriter"]
    """Where it comes from: the stream, a rule of the configuration, or the command of a rule."""
    text: str | None = None
    output_id: str | None = None
    mime_type: str | None = None
    type: str | None = None
    """The kind of a display tool's output: `file`, `command` or `image`."""
    path: str | None = None
    language: str | None = None
    """The language for highlighting, as Pygments names it."""
    bytes: int | None = None
    """Length of the body."""
    lines: int | None = None
    cut: int | None = None
    """Bytes that follow `text` and that a rule (`max_chars`) does not show."""


class LineNumbers(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The numbers that an agent puts before the lines of a text: `width` code points, filled with `pad`, and `mark`."""

    first: int
    """The number of the first line."""
    mark: str
    """The text between a number and its line."""
    width: int = 0
    pad: str = " "


class ViewPart(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A piece of what the model saw that is elsewhere in the event."""

    at: str
    """JSON pointer to a string in this event; if the string was cut, `outputs` has the whole string."""
    length: int | None = None
    """How many code points of the string the model saw, from its start; absent: the whole string."""
    numbers: LineNumbers | None = None
    """Present if the model saw numbered lines."""


class ViewBlock(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One content block of what the model saw: `text`, the `parts` that make up the text, or a stored body."""

    type: str = "text"
    """As the provider calls it: `text`, `image`, …"""
    text: str | None = None
    """The text, or its beginning: then `outputs` has the whole text, under the pointer of this string."""
    parts: list[str | ViewPart] | None = None
    output_id: str | None = None
    uri: str | None = None
    mime_type: str | None = None


class ModelView(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What the model saw of a result, byte for byte as in the stream."""

    blocks: list[ViewBlock]
    differs: bool = False
    """The model saw something that `output` does not show, or did not see some of what it shows."""


class Chunk(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Consecutive output of a running tool; only in partials."""

    stream: str
    """`stdout`, `stderr`, or `output` if the provider merges them."""
    text: str
    offset: int
    """Code points of the same stream before this chunk."""


TIMED = frozenset(
    ("message", "reasoning", "tool-call", "tool-update", "tool-result", "permission-request", "permission-response")
)
"""Kinds of events that happen while a turn goes on. The others report of it, some of them much later."""


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", tag_field="kind"):
    """The envelope: the keys that every kind has."""

    v: int
    """Always 2."""
    id: str
    """`<stream>:<line>:<index>`. `c` follows the line in events that result from closing the stream, `d` in events that
    no line caused."""
    stream: str
    """The id of the stream."""
    line: int
    """1-based number of the line of the stream that caused the event; 0 if no line has been read."""
    session: str
    """The root session: the provider's id once it is known, else the publisher's name for it, else the stream's id."""
    protocol: str
    """The wire family: acp, codex, claude, gemini, opencode, openai, or the agent's own name."""
    provider: str
    """The agent, unless the publisher gives it another name."""
    dialect: str
    """The format of the stream."""
    seq: int | None = None
    """The cursor in the journal; absent in partials and in the output of `tooltap normalize`."""
    ts: int | None = None
    """Milliseconds since the epoch: the provider's time; else the last one that the stream states, if it is read after
    it was written; else the time of receipt. What is inferred has the time of the last event of what it ends."""
    agent: str | None = None
    """The provider's id of the subagent, else the id of the call that spawned it; absent for the main agent."""
    parent: str | None = None
    """Id of the call that spawned the subagent."""
    turn: str | None = None
    """The turn that the event belongs to."""
    synthetic: bool = False
    """tooltap inferred the event: a start that was never seen, a call that was open at the end."""
    replay: bool = False
    """History: the agent sent it again, or copied it from another session. It is in no turn, and counts nowhere."""
    host: str | None = None
    """The remote that the event comes from, as the user has named it (`tooltap remote add`); absent: this machine. Ids
    of its streams and sessions begin with this name and `/`.
    """
    outputs: dict[str, OutputRef] | None = None
    """JSON pointer into this event -> where to find the whole of the string that was cut there."""


class SessionEvent(Event, tag="session"):
    """A session started, was resumed, changed or ended; only new values are present."""

    state: Literal["started", "resumed", "updated", "ended"]
    cwd: str | None = None
    root: str | None = None
    """The root folder of the repository that contains `cwd`: as the agent states it, or as found on the daemon's
    machine.
    """
    branch: str | None = None
    """The branch of this repository."""
    model: str | None = None
    mode: str | None = None
    title: str | None = None
    agent_version: str | None = None
    tools: list[str] | None = None
    commands: list[str] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    """Each `{name, status?}`."""
    alias: str | None = None
    """The name of this session in earlier events, if its id arrived late."""
    forked_from: str | None = None
    """The session whose history this one begins with, because the user forked or branched it."""
    parent_session: str | None = None
    """The session that started this one, if it is not one of its subagents."""
    resumes: str | None = None
    """The session that this one continues under a new id."""
    exit_code: int | None = None
    """Exit code of the agent's process, with which the session ended, as its tap saw it."""
    signal: str | None = None
    """Name of the signal that killed this process, such as `SIGKILL`."""
    stopped_by: Literal["client"] | None = None
    """`client`: the process was stopped through its tap, or its output was no longer read."""


class Turn(Event, tag="turn"):
    """A turn started or ended: from a prompt to the end of the answer to it."""

    state: Literal["started", "completed", "failed", "cancelled"]
    ended_by: Literal["provider", "answer", "eof"] | None = None
    """How the end is known: the provider or the end of its connection or process states it, the model's answer states
    that it is the last, or the stream ended (after an answer: `completed`; with work open: `cancelled`).
    """
    reason: str | None = None
    """As the provider states it (`end_turn`, `error_max_turns`, …); `interrupted` if work was open at the end. Where
    the gateway saw the connection end: an HTTP status (`502`), `client-left`, `connection-lost`, `unfinished` or
    `gateway-stopped`. Where a tap saw the agent's process end: `exit 3`, `killed by SIGKILL`.
    """
    duration_ms: int | None = None
    provisional: bool = False
    """Nothing has followed the answer, or a request that failed, for some seconds, so the turn seems to have ended. If
    it goes on, its events follow, and another end with the same `turn`.
    """

    @property
    def starts(self) -> bool:
        """Whether a turn of the main agent starts: see `is_turn_start`."""
        return not self.replay and is_turn_start(self.state, self.agent)


def is_turn_start(state: str | None, agent: str | None) -> bool:
    """Return whether a `turn` event starts a turn of the main agent. These turns are numbered from 1 in each session. A
    message between two turns belongs to neither. Replayed history has no turns."""
    return state == "started" and agent is None


class Message(Event, tag="message"):
    """One whole block of text by one author; with `partial`, a live part of it."""

    role: Literal["user", "assistant", "system"]
    text: str
    message_id: str | None = None
    block: int | None = None
    attachments: list[Attachment] | None = None
    partial: bool = False
    offset: int | None = None
    """Only in partials: code points of the block before this part."""


class Reasoning(Event, tag="reasoning"):
    """One whole block of the model's reasoning; with `partial`, a live part of it."""

    text: str
    message_id: str | None = None
    block: int | None = None
    partial: bool = False
    offset: int | None = None


class ToolCall(Event, tag="tool-call"):
    """A tool was called."""

    call_id: str
    name: str
    """The canonical tool, or the provider's name unchanged."""
    input: dict[str, Any]
    """The payload of the canonical tool, with `_happy` and `_raw`."""
    status: CallStatus
    title: str | None = None
    preview: str | None = None
    """The one argument that identifies the call, as one line of at most 40 code points."""
    hidden: bool = False
    """The user sees nothing of the call, except in the assistant view."""


class ToolUpdate(Event, tag="tool-update"):
    """A change of an open call; `input` is the whole new input. As a partial, a `chunk` of its output."""

    call_id: str
    name: str
    input: dict[str, Any] | None = None
    status: CallStatus | None = None
    title: str | None = None
    preview: str | None = None
    progress: dict[str, Any] | None = None
    """An object `{text?, data?}`."""
    display: Display | None = None
    chunk: Chunk | None = None
    partial: bool = False
    hidden: bool = False
    """The user sees nothing of the call."""


class ToolResult(Event, tag="tool-result"):
    """The outcome of a call."""

    call_id: str
    name: str
    output: dict[str, Any]
    """The payload of the canonical tool, with `_happy` and `_raw`, and with `errorMessage` unless it completed."""
    status: ResultStatus
    is_error: bool
    """True if and only if `status` is `failed`."""
    duration_ms: int | None = None
    attachments: list[Attachment] | None = None
    display: Display | None = None
    silent: bool = False
    """The user sees nothing of it, except in the assistant view."""
    hidden: bool = False
    """The user sees nothing of the call either. A result that did not complete is shown, without its call."""
    ask: bool = False
    """The user sees only its title, until asking for more."""
    assistant_view: Literal["unknown"] | None = None
    """`unknown` if the stream does not say what the model saw."""
    model_view: ModelView | None = None
    """What the model saw, if the stream states it. Events of older versions have neither `modelView` nor
    `assistantView`; there, the model saw `output`.
    """
    async_: bool = msgspec.field(default=False, name="async")
    """The result only confirms that background work has started; its real outcome follows with `final`."""
    final: bool = False
    replaces: str | None = None
    """Id of the result that this one replaces: a synthetic one, or one that a later line corrects."""
    wait_ms: int | None = None
    """How long the call waited for the user, from requests to their responses. What is left of its time is its own."""


class PermissionRequest(Event, tag="permission-request"):
    """The agent asks for a permission, or asks a question."""

    permission_id: str
    type: Literal["permission", "question", "elicitation"]
    call_id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    title: str | None = None
    options: list[dict[str, Any]] | None = None
    """Each `{id, name, kind, remembers?, withheld?}`. `kind`: `allow_once`, `allow_always`, `reject_once`,
    `reject_always`, or what the agent calls it; `remembers`: what will be allowed, or denied, from now on; `withheld`:
    why the daemon refuses it."""
    questions: list[dict[str, Any]] | None = None
    """As the agent words them. `freeText: true`: one may be answered with other words than its options; `withheld`: why
    the daemon refuses an answer."""


class PermissionResponse(Event, tag="permission-response"):
    """The outcome of a permission request."""

    permission_id: str
    outcome: Literal["allowed", "denied", "cancelled", "answered", "expired"]
    call_id: str | None = None
    option_id: str | None = None
    by: Literal["user", "policy", "hook", "agent"] | None = None
    answers: dict[str, Any] | None = None
    message: str | None = None


class ModelUsage(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One model's share of the tokens and the cost of a usage event, counted in the same way."""

    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class QuotaWindow(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A span of time in which the provider lets an account use only so much."""

    name: str | None = None
    """As the agent calls it: `five_hour`."""
    minutes: int | None = None
    """Length of the window."""
    used_percent: float | None = None
    resets_at: int | None = None
    """Milliseconds since the epoch."""


class Usage(Event, tag="usage"):
    """Tokens and cost. `input_tokens` is the whole prompt, including cache reads and writes."""

    scope: Literal["step", "turn", "session"]
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    """The part of `cache_write_tokens` that is cached for an hour, which costs more."""
    reasoning_tokens: int | None = None
    """Included in `output_tokens`."""
    cost_usd: float | None = None
    cost_scope: Literal["step", "turn", "session"] | None = None
    """What the cost covers, if that is not what the tokens cover."""
    context_used: int | None = None
    """Tokens in the context window."""
    context_size: int | None = None
    """Size of the context window, in tokens."""
    model: str | None = None
    """The model that used the tokens, if the stream states it; otherwise it is the model of the session or the
    subagent.
    """
    models: list[ModelUsage] | None = None
    """Each model's share of the tokens, if the stream states it."""
    request: str | None = None
    """Identity of the request, if the stream states it. A journal counts a request once, whatever streams report it; an
    event that reports it again is a `replay`.
    """
    counter: Literal["process", "session", "lineage"] | None = None
    """Only with scope `session`: what the total covers. `process`: it began at 0 with the agent's process. `session`:
    it goes on when the session is resumed. `lineage`: it also includes the sessions that this one was forked from.
    Absent: not known.
    """
    replaces: str | None = None
    """Id of the usage event that this one corrects, and whose figures no longer count."""
    estimated_output_tokens: int | None = None
    """Present if the recorded text shows that `output_tokens` is only a lower bound: an estimate from the text."""
    quota: list[QuotaWindow] | None = None
    """The account's quota, if the stream states it and it has changed."""
    beside: str | None = None
    """Only in an agent's file: id of the stream of a tap that was running at that time. What both streams state of it
    counts once."""


class Notice(Event, tag="notice"):
    """Something that the user may want to know: a retry, a rate limit, a compaction."""

    level: Literal["info", "warning", "error"]
    code: str
    """retry, rate-limit, hook, compaction, compaction-summary, context-edit, rewound, interrupt, provider-error,
    pull-request, mcp-startup, config, unknown-format, parser-reset, lost, view-failed, answer, answer-delivered,
    answer-failed, send, send-delivered, send-failed, send-accepted, send-refused, replaced, or another."""
    text: str
    call_id: str | None = None
    data: dict[str, Any] | None = None


class Unparsed(Event, tag="unparsed"):
    """A line that could not be read or is of an unknown form; `text` is its beginning."""

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
"""Return the event as one JSON object, without a newline."""

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def decode(line: bytes | str) -> AnyEvent:
    """Decode one event line. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    return _decoder.decode(line)


Known = TypeVar("Known", bound=msgspec.Struct)
_UNKNOWN_VALUE = re.compile(r" - at `\$\.(\w+)`\Z")
"""The end of msgspec's message about a key of the event itself."""


def decode_known(line: bytes | str) -> AnyEvent | None:
    """Decode an event line of a daemon that may be newer: values of enumerations that this version does not know are
    passed on as they are. None for a kind that it does not know, or with such a value in a nested object. Raises
    `msgspec.DecodeError`."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        return lenient(line, _KINDS_BY_TAG)


def lenient(line: bytes | str, kinds: Mapping[str, type[Known]]) -> Known | None:
    """Decode a line that has unknown values of enumerations; None if that is not all that is wrong. `kinds`: of the
    lines, by their tags."""
    fields = msgspec.json.decode(line)
    kind = kinds.get(str(fields.get("kind"))) if isinstance(fields, dict) else None
    if kind is None:
        return None
    members = {member.encode_name: member for member in msgspec.structs.fields(kind)}
    unknown: dict[str, Any] = {}
    while True:
        try:
            event = msgspec.convert(fields, kind)
            break
        except msgspec.ValidationError as error:
            found = _UNKNOWN_VALUE.search(str(error))
            key = "" if found is None else found[1]
            known = _values(members[key].type) if key in members else ()
            if key in unknown or not known or not isinstance(fields[key], str):
                return None
            unknown[key], fields[key] = fields[key], known[0]
    for key, value in unknown.items():
        setattr(event, members[key].name, value)
    return event


def _values(annotation: Any) -> tuple[Any, ...]:
    """Return the values of an enumeration, which may be optional; empty for any other type."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((get_args(one) for one in get_args(annotation) if get_origin(one) is Literal), ())


_KINDS_BY_TAG: dict[str, type[AnyEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyEvent)}


def event_lines(events: Sequence[tuple[int | None, bytes]]) -> bytes:
    """Join events for delivery: each with its `seq`, unless it is a partial, and a newline.

    `events`: pairs of `seq` (None for a partial) and the encoded event.
    """
    seqs = [seq for seq, _ in events]
    if None not in seqs:
        return numbered_lines(seqs, [body for _, body in events])
    return b"".join([body + b"\n" if seq is None else with_seq(seq, body) + b"\n" for seq, body in events])


def numbered_lines(seqs: Sequence[int | None], bodies: Sequence[bytes]) -> bytes:
    """Join stored events for delivery: each with its `seq`, and a newline."""
    values: list[Any] = [None] * (2 * len(bodies))
    values[::2] = seqs
    values[1::2] = [body[1:] for body in bodies]
    return b'{"seq":%d,%b\n' * len(bodies) % tuple(values)  # all at once: a quarter cheaper


def with_seq(seq: int, body: bytes) -> bytes:
    """Put `seq` into an encoded event, as its first key."""
    return b'{"seq":%d,%b' % (seq, body[1:])


CallKey: TypeAlias = tuple[str, str]
"""Stream and call id; the call id is empty for an event without a call."""
_NONE = msgspec.Raw()


WORK = frozenset({"message", "reasoning", "tool-call", "permission-request"})
"""Kinds of the events with which the main agent goes on in a turn."""


class EventHead(msgspec.Struct, rename="camel"):
    """The head of an event: a partial decode with the fields by which events are listed, joined, counted and filtered.

        head = head_of(body)
        head.kind, head.key, head.tool      # decoded at once
        head.text, head.payload             # may be long, so decoded on access

    The head of an event is decoded once and cached beside its bytes (`Produced.head`, `StoredEvent.head`).

    It has the fields of all kinds of event; a field that a kind does not have is at its default.
    """

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
    """Title of a session, a call or a request."""
    state: str | None = None
    """State of a turn or a session: `started`, or how it ended."""
    status: str | None = None
    """Status of a call, an update, or a result."""
    outcome: str | None = None
    """Outcome of a permission request, in its response."""
    scope: str | None = None
    """Scope of a usage event."""
    is_error: bool = False
    hidden: bool = False
    async_: bool = msgspec.field(default=False, name="async")
    replaces: str | None = None
    duration_ms: int | None = None
    provisional: bool = False
    turn: str | None = None
    wait_ms: int | None = None
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
        """Key of the event's call: (stream, call id)."""
        return self.stream, self.call_id or ""

    @property
    def starts_turn(self) -> bool:
        """Whether a turn of the main agent starts."""
        return self.kind == "turn" and not self.replay and is_turn_start(self.state, self.agent)

    @property
    def goes_on(self) -> bool:
        """Whether the main agent works, so that a turn with a provisional end has not ended."""
        return self.agent is None and not self.replay and self.kind in WORK

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
        """Output of a running tool; only in partials, else None."""
        return _chunks.decode(self.chunk_json) if self.chunk_json else None

    @property
    def payload(self) -> dict[str, msgspec.Raw]:
        """The values of the input or the output of a call, still encoded; empty if there is none."""
        payload = self.input_json or self.output_json
        return _payloads.decode(payload) if payload else {}

    @property
    def tool(self) -> str | None:
        """The canonical tool: `name`, under the name that filters use."""
        return self.name

    @property
    def raw_tool(self) -> str | None:
        """The provider's name of the tool, if it differs from the canonical one; else None."""
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
    """Return the provider's name of a payload's tool, if it differs from the canonical one; else None."""
    happy = payload.get("_happy")
    if happy is None:
        return None
    try:
        return _happy.decode(happy).raw_tool_name
    except msgspec.DecodeError:  # not ours
        return None
