"""Display events: what a user interface shows of a stream, with the same kinds for every agent.

One struct per kind; the key `kind` tells which. Each shows one event and has its `seq`, so cursors are those of events.
All strings are plain, without escape sequences: colours, glyphs and layout are up to the renderer. Clients ignore kinds
and keys that they do not know, because more may be added.

`kind` is `text`, `reasoning`, `prompt`, `tool_use`, `tool_update`, `tool_result`, `permission`, `notice`, `session`,
`turn` or `usage`.
`tooltap.daemon.show.skins.display` creates them from events; a subscription with `"as": "display"` delivers them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from tooltap.protocol.events import (
    Attachment,
    CallStatus,
    Chunk,
    Display,
    OutputRef,
    QuotaWindow,
    ResultStatus,
    lenient,
)

__all__ = [
    "AnyDisplayEvent",
    "DisplayEvent",
    "DisplayNotice",
    "DisplayPermission",
    "DisplayPrompt",
    "DisplayReasoning",
    "DisplaySession",
    "DisplayText",
    "DisplayToolResult",
    "DisplayToolUpdate",
    "DisplayToolUse",
    "DisplayTurn",
    "DisplayUsage",
    "PermissionOption",
    "PermissionQuestion",
    "QuestionOption",
    "ToolFamily",
    "decode_display",
    "encode_display",
]


ToolFamily: TypeAlias = Literal["shell", "read", "edit", "search", "web", "task", "plan", "mcp", "other"]
"""The kind of work that a call does."""
TurnEnd: TypeAlias = Literal["provider", "answer", "eof"]
"""The end of a turn is stated by the provider or the end of its connection, or by the model's answer; or the stream has
ended."""


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
    message_id: str | None = None
    block: int | None = None
    """Which block of the message: a part has those of the whole that follows, and there may be parts of two blocks at
    the same time."""
    attachments: list[Attachment] | None = None


class DisplayReasoning(DisplayEvent, tag="reasoning"):
    """The reasoning of the assistant, if the agent reports it."""

    text: str
    offset: int | None = None
    message_id: str | None = None
    block: int | None = None


class DisplayPrompt(DisplayEvent, tag="prompt"):
    """A prompt to the assistant."""

    role: Literal["user", "system"]
    """`system`: not what the user wrote, but a text of the agent, such as the output of a command of its own."""
    text: str
    attachments: list[Attachment] | None = None


class DisplayToolUse(DisplayEvent, tag="tool_use"):
    """A tool was called."""

    call_id: str
    name: str
    """The canonical tool, or the provider's name unchanged."""
    arg: str = ""
    """The one argument that identifies the call, as one line of at most 40 code points; empty if there is none yet."""
    family: ToolFamily | None = None
    """What kind of tool it is, to choose an icon."""
    status: CallStatus | None = None
    synthetic: bool = False
    """tooltap inferred the call: the agent does not state it."""


class DisplayToolUpdate(DisplayEvent, tag="tool_update"):
    """A change of a call: its argument, its progress, its running output (in partials), what the user sees of it."""

    call_id: str
    name: str
    arg: str | None = None
    family: ToolFamily | None = None
    status: CallStatus | None = None
    progress: dict[str, Any] | None = None
    display: Display | None = None
    chunk: Chunk | None = None


class DisplayToolResult(DisplayEvent, tag="tool_result"):
    """A call has ended. The user sees `display`, or `output` if there is no `display`. If both are there, `display` is
    a caption of one line above the output. Both are absent if the result is `silent`, or if it is `ask`: then request
    the whole event by its `seq`."""

    call_id: str
    name: str
    status: ResultStatus
    exit_code: int | None = None
    duration_ms: int | None = None
    """As the agent states it; else the time from the call's `ts` to this one, less `wait_ms`, from 50 ms on. Absent if
    either time is unknown, or the call was read long before or, with a filter, not at all."""
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
    family: ToolFamily | None = None
    synthetic: bool = False
    """tooltap inferred the result: the agent does not state it."""
    model_differs: bool = False
    """The model saw something that the output does not show, or the other way round."""


class PermissionOption(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """An answer to choose. The keys are those that agents that speak ACP state."""

    id: str | None = None
    name: str | None = None
    """The text for the user."""
    kind: str | None = None
    """`allow_once`, `allow_always`, `reject_once`, `reject_always`, or another."""


class QuestionOption(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    label: str | None = None
    description: str | None = None


class PermissionQuestion(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A question to the user."""

    id: str | None = None
    question: str | None = None
    header: str | None = None
    """A few words, as a title."""
    multi_select: bool = False
    """Several options may be chosen."""
    free_text: bool = False
    """It may be answered with other words than its options."""
    options: list[QuestionOption] | None = None


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
    type: Literal["permission", "question", "elicitation"] | None = None
    """What is requested."""
    family: ToolFamily | None = None
    input: dict[str, Any] | None = None
    """The input of the call, in the canonical form of its tool."""
    options: list[PermissionOption] | None = None
    """The answers that the agent offers; absent if it does not state any."""
    questions: list[PermissionQuestion] | None = None
    option_id: str | None = None
    """The option that was chosen."""
    answers: dict[str, Any] | None = None
    """Question, or its id -> answer."""


class DisplayNotice(DisplayEvent, tag="notice"):
    """A notice, a turn that failed or was cancelled (`code` is `turn`), or a line that could not be read (`code` is
    `unparsed`)."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str
    call_id: str | None = None
    state: Literal["failed", "cancelled"] | None = None
    """How the turn ended; only with the code `turn`."""
    duration_ms: int | None = None
    """Duration of that turn, if the agent states it."""
    ended_by: TurnEnd | None = None
    """How the end of that turn is known."""
    provisional: bool = False
    """That turn seems to have failed; if it goes on, its events follow, and another end with the same `turn`."""
    permission_id: str | None = None
    """The request that was answered; only with the codes `answer`, `answer-delivered` and `answer-failed`."""
    outcome: str | None = None
    """Outcome of that answer, as in `answer`."""
    send_id: str | None = None
    """Id of what was sent, as in the receipt of `send`; only with the codes `send` and `send-…`."""
    by: str | None = None
    """Who has answered or sent."""
    reason: str | None = None
    """Why it has not reached the agent."""


class DisplaySession(DisplayEvent, tag="session"):
    """A session started, was resumed, changed or ended; only new values are present."""

    state: Literal["started", "resumed", "updated", "ended"]
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    cwd: str | None = None
    branch: str | None = None
    agent_version: str | None = None
    alias: str | None = None
    """The name of this session in earlier display events, if its id arrived late."""
    forked_from: str | None = None
    parent_session: str | None = None
    resumes: str | None = None
    exit_code: int | None = None
    """Exit code of the agent's process, with which the session ended."""
    signal: str | None = None
    """Name of the signal that killed this process."""
    stopped_by: Literal["client"] | None = None
    """`client`: the process was stopped through its tap, or its output was no longer read."""


class DisplayTurn(DisplayEvent, tag="turn"):
    """A turn started or was completed. The end of one that failed or was cancelled is a notice with the code `turn`."""

    state: Literal["started", "completed"]
    duration_ms: int | None = None
    """As the agent states it. Otherwise take the time between the `ts` of start and end."""
    reason: str | None = None
    """Why it ended, in the agent's words."""
    ended_by: TurnEnd | None = None
    """How its end is known."""
    provisional: bool = False
    """The turn seems to have ended; if it goes on, its events follow, and another end with the same `turn`."""


class DisplayUsage(DisplayEvent, tag="usage"):
    """Tokens, cost, context and quota. Their sums, in which nothing counts twice, are in the rows of `sessions`."""

    scope: Literal["step", "turn", "session"]
    input_tokens: int | None = None
    """The whole prompt, including cache reads and writes."""
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Included in `output_tokens`."""
    estimated_output_tokens: int | None = None
    """Present if `output_tokens` is only a lower bound: an estimate from the text."""
    cost_usd: float | None = None
    cost_scope: Literal["step", "turn", "session"] | None = None
    """What the cost covers, if that is not what the tokens cover."""
    context_used: int | None = None
    """Tokens in the context window."""
    context_size: int | None = None
    model: str | None = None
    quota: list[QuotaWindow] | None = None
    """The account's quota, if it has changed."""
    replaces: str | None = None
    """Id of the usage that this one corrects."""


AnyDisplayEvent: TypeAlias = (
    DisplayText
    | DisplayReasoning
    | DisplayPrompt
    | DisplayToolUse
    | DisplayToolUpdate
    | DisplayToolResult
    | DisplayPermission
    | DisplayNotice
    | DisplaySession
    | DisplayTurn
    | DisplayUsage
)

_KINDS: dict[str, type[AnyDisplayEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyDisplayEvent)}
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyDisplayEvent] = msgspec.json.Decoder(AnyDisplayEvent)


def encode_display(event: DisplayEvent) -> bytes:
    """Return the display event as one JSON object, without a newline."""
    return _encoder.encode(event)


def decode_display(line: bytes | str) -> AnyDisplayEvent | None:
    """Decode one line; None for a kind that this version does not know. Unknown values of enumerations are passed on as
    they are. Raises `msgspec.DecodeError`."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        return lenient(line, _KINDS)
