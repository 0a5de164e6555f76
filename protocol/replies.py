"""Results of requests: the `result` of a `Reply`, one struct for each `op`.

    sessions = msgspec.convert(await request("sessions"), RESULTS["sessions"]).sessions

Clients read them leniently, like all frames of the daemon: they ignore what a newer daemon adds.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from tooltap.protocol.events import CallStatus, ResultStatus
from tooltap.protocol.stats import Statistics

__all__ = [
    "RESULTS",
    "AnswerResult",
    "CallsResult",
    "ChangeKind",
    "ChangedFile",
    "ChangedFilesResult",
    "ChangingSession",
    "EventResult",
    "FoundEvent",
    "FoundSession",
    "Facets",
    "FileChange",
    "FileDiff",
    "FilesResult",
    "Hunk",
    "OpenCall",
    "OpenPermission",
    "OutputResult",
    "PinResult",
    "PingResult",
    "PricesInfo",
    "RemoveResult",
    "RereadResult",
    "SearchResult",
    "Session",
    "SessionStatus",
    "SessionsResult",
    "SendResult",
    "StoreResult",
    "StreamState",
    "ToAgentResult",
    "TurnState",
    "UsageKey",
    "UsageResult",
    "UsageRow",
    "Waiting",
    "WaitingResult",
]

ChangeKind: TypeAlias = Literal["added", "modified", "deleted", "renamed"]


class _Result(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """An absent key means that the value is not known."""


TurnState: TypeAlias = Literal["started", "completed", "failed", "cancelled"]
UsageKey: TypeAlias = Literal["day", "model", "project", "agent", "session", "subagent"]
StreamState: TypeAlias = Literal["open", "suspended", "ended"]

SessionStatus: TypeAlias = Literal["running", "waiting", "failed", "completed", "interrupted", "unknown"]


class Session(_Result, kw_only=True):
    """One session, as far as its events are in the journal."""

    session: str
    provider: str
    aliases: dict[str, int] | None = None
    """Ids under which earlier events of the session are stored, because its own was not known yet -> the `seq` of the
    event that named the session; at most 100."""
    host: str | None = None
    """The remote that it comes from (`tooltap remote add`); absent: this machine."""
    agent_version: str | None = None
    model: str | None = None
    """The model that was used last."""
    models: list[str] | None = None
    """All models, in the order in which they were first used; at most 16."""
    title: str | None = None
    """The agent's title, or else the beginning of the first prompt: one line, without text that programs add around it.
    """
    cwd: str | None = None
    project: str | None = None
    """The folder of the repository in which the session started, or else the folder in which it started."""
    branch: str | None = None
    """The branch of this repository."""
    forked_from: str | None = None
    """The session whose history this one begins with."""
    parent: str | None = None
    """The session that started this one."""
    resumes: str | None = None
    """The session that this one continues under a new id."""
    state: StreamState
    """`suspended`: its publisher is disconnected and may return."""
    status: SessionStatus | None = None
    """The status of the work. `running`: a turn is running. `waiting`: a permission or a question is pending. `failed`:
    the last turn failed. `interrupted`: the last turn was cancelled, or its stream ended or was suspended before the
    turn ended. `unknown`: no line of it is in a format that tooltap knows. `completed`: none of these."""
    turn: TurnState | None = None
    """State of the main agent's last turn; `started` while it is running."""
    empty: bool = False
    """Nothing was asked, said or done in the session: an agent has only opened it. Such sessions are listed on request
    only."""
    turns: int | None = None
    """Turns of the main agent."""
    first_seq: int
    last_seq: int
    first_ts: int | None = None
    """Milliseconds since the epoch."""
    last_ts: int | None = None
    events: int
    """Number of events, without history that the agent sent again."""
    calls: int
    families: dict[str, int] | None = None
    """Number of calls by family: `shell`, `read`, `edit`, `search`, `web`, `task`, `plan`, `mcp`, `other`."""
    activity: list[dict[str, int]] | None = None
    """Number of calls by family for each slice of the session's time, oldest first; at most 24 slices."""
    activity_ms: int | None = None
    """Width of a slice in milliseconds. Slices begin at multiples of this width since the epoch; the first slice
    contains `firstTs`.
    """
    files: int | None = None
    """Files that its calls have changed; those after the first 500 are not counted."""
    lines_added: int | None = None
    """Lines that its calls have added, summed over the calls: a line that was changed twice counts twice."""
    lines_removed: int | None = None
    errors: int | None = None
    """Calls and turns that failed."""
    duration_ms: int | None = None
    """Milliseconds of work: the sum of the main agent's turns, as the agent states their durations, or else from start
    to end; a running turn counts until `lastTs`. If no turn has a time, `lastTs` minus `firstTs`.
    """
    streams: list[str]
    """Ids of the streams that contain its events."""
    pinned: bool | None = None
    """Retention never deletes it: the user has pinned it."""
    cost_usd: float | None = None
    """As the agent states it, or else an estimate."""
    known_cost_usd: float | None = None
    """Only without `cost_usd`: the cost of those tokens whose cost is known, as the agent states it, or an estimate."""
    cost_estimated: bool | None = None
    """The agent states no cost; the daemon has computed it from the prices of the models."""
    cost_model: str | None = None
    """The models whose prices the estimate uses, as `provider/model`, separated by commas."""
    prices_date: str | None = None
    """The date of these prices."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    """Included in `input_tokens`, as those written to the cache are."""
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Included in `output_tokens`."""
    estimated_output_tokens: int | None = None
    """Present if `output_tokens` is only a lower bound, because the agent stores figures that its own text refutes: an
    estimate from the text.
    """
    context_used: int | None = None
    """Tokens in the main agent's context window."""
    context_size: int | None = None
    """Size of the context window, in tokens."""
    resume: list[str] | None = None
    """The words of the command that continues the session with its agent, to be run in `cwd`; absent if it is not
    known."""
    fork: list[str] | None = None
    """The words of the command that continues a copy of it."""


class Facets(_Result, kw_only=True):
    """How many of the sessions that match have each value; of many values, the most frequent."""

    status: dict[str, int]
    provider: dict[str, int]
    project: dict[str, int]


class SessionsResult(_Result, kw_only=True):
    """A page of sessions, newest first."""

    sessions: list[Session]
    next: int | None = None
    """In the order `seq`, present if there may be more: pass it as `before` to get them."""
    cursor: str | None = None
    """Present if there may be more: pass it as `cursor`, with the same order and filters, to get them."""
    facets: Facets | None = None


class Hunk(_Result, kw_only=True):
    """Lines that changed, with up to three unchanged ones around them."""

    old_start: int | None = None
    """Number of the first line before the change, as in a unified diff. Absent if the place in the file is not known.
    """
    old_lines: int
    new_start: int | None = None
    new_lines: int
    lines: list[str]
    """Each begins with a blank, `-` or `+`; a line that begins with `\\` means that the line before it has no newline.
    """
    seqs: list[int]
    """The `seq` of each call that made the change. Empty if no event shows which call did."""


class FileChange(_Result, kw_only=True):
    """A file that a session changed: all changes from the first to the last, as one."""

    path: str
    """Relative to the session's directory if the file is in there."""
    old_path: str | None = None
    """Earlier path of a renamed file."""
    kind: ChangeKind
    added: int | None = None
    """Number of added lines; absent, as `removed`, if it is not known."""
    removed: int | None = None
    complete: bool
    """Whether the diff contains all changes. If not, the agent did not state all of them, or its events show that
    something else changed the file, such as a shell command.
    """
    omitted: Literal["binary", "large"] | None = None
    """Reason why there is no diff."""
    calls: list[int]
    """The `seq` of each call that changed it; at most 1,000."""


class FileDiff(FileChange, kw_only=True):
    """A file that a session changed, with its diff."""

    diff: str
    """As unified text, with `---` and `+++`; empty if there is none."""
    hunks: list[Hunk]


class FilesResult(_Result, kw_only=True):
    """What a session changed, by path."""

    files: list[FileChange]
    """The changed files, without those that are unchanged in the end."""
    complete: bool
    """False if there are more files than fit into a reply, or than are stored for a session."""
    file: FileDiff | None = None
    """The requested file; then `files` contains only this file."""


class ChangingSession(_Result, kw_only=True):
    """A session that changed a file."""

    session: str
    provider: str
    title: str | None = None
    changes: int
    """Number of its calls that changed the file."""
    added: int
    """Lines that these calls have added, summed over the calls: a line that was changed twice counts twice."""
    removed: int
    last_ts: int | None = None
    """Time of the last change, in milliseconds since the epoch."""
    last_seq: int
    """`seq` of the call that made it."""


class ChangedFile(_Result, kw_only=True):
    """A file that sessions changed."""

    path: str
    """Absolute; relative if the directory of its session is not known."""
    project: str | None = None
    """The folder of the project of one of these sessions."""
    worktree: str | None = None
    """The folder of the worktree in which it lies, if that is in a hidden folder of the project, and the session was
    started there. The same file in two worktrees is two files.
    """
    host: str | None = None
    """Name of the remote on which it lies; absent on the daemon's own machine. The same path on two hosts is two files.
    """
    sessions: int
    agents: list[str]
    """Providers of these sessions, the one with the most changes first."""
    changes: int
    """Number of calls that changed it."""
    added: int
    """Lines that these calls have added, summed over the calls: a line that was changed twice counts twice."""
    removed: int
    last_ts: int | None = None
    """Time of the last change, in milliseconds since the epoch."""
    last_seq: int
    """`seq` of the call that made it."""
    changed_by: list[ChangingSession]
    """These sessions, the one with the last change first; at most 20."""


class ChangedFilesResult(_Result, kw_only=True):
    """The files that sessions changed, in the requested order. Changes by shell commands are not among them."""

    files: list[ChangedFile]
    total: int
    """How many files there are."""
    complete: bool
    """False if there are more files than were requested or fit into a reply, or than are stored for a session: at most
    500, and none of what an older version has ingested."""
    uncounted: int | None = None
    """Number of sessions that an older version has ingested without counting their files: `tooltap journal repair`
    counts them. Absent if there are none."""


class FoundEvent(_Result, kw_only=True):
    """An event that matches the query."""

    seq: int
    session: str
    stream: str
    kind: str
    ts: int | None = None
    tool: str | None = None
    """The canonical tool, for the kinds that name one."""
    text: str
    """An excerpt of the searched text, on one line; `…` where something is left out. It is of one part of the text: of
    one argument of a call, or of one output."""
    ranges: list[list[int]]
    """The parts of `text` that match, each `[start, end]` in code points. Empty if only the name of the tool does."""
    argument: str | None = None
    """Name of the argument of a call that `text` is of, such as `description`; absent for the first argument, which
    says what the call does."""


class FoundSession(_Result, kw_only=True):
    """A session that has hits."""

    session: str
    provider: str
    title: str | None = None
    project: str | None = None
    host: str | None = None
    """Name of the remote that it comes from; absent for a session of the daemon's own machine."""
    status: SessionStatus | None = None
    last_ts: int | None = None
    """Milliseconds since the epoch, of the session's latest event."""
    hits: int | None = None
    """How many of its events match; absent if they were not counted."""
    latest: int
    """`seq` of the newest hit."""


class SearchResult(_Result, kw_only=True):
    """Hits, newest first by when they happened, and the sessions that have them."""

    hits: list[FoundEvent]
    sessions: list[FoundSession]
    """The session with the newest hit first; at most 100. Without `counts`, those of `hits`."""
    total: int | None = None
    """All hits; absent if they were not counted."""
    found_in: int | None = None
    """All sessions that have hits; absent if they were not counted."""
    next: int | None = None
    """Present if there may be more: pass it as `before` to get them."""
    complete: bool
    """False if the search took too long, or if it is of a host or a status and more than 5,000 sessions have hits: some
    hits may not have been found, or not counted."""
    upto: int
    """The `seq` of the newest event that was searched."""
    behind: int
    """Number of `seq` that are not indexed yet: newer ones, and those of a part of the index that is being rebuilt."""
    floor: int | None = None
    """Events up to this `seq` are not searched: the index would be larger than `index_bytes`."""


class UsageRow(_Result, kw_only=True):
    """Tokens and cost of one day, model, project, agent, session or subagent."""

    key: str | None = None
    """The value by which the row is grouped; a day is `YYYY-MM-DD`. Absent if it is not known, and for the main agent
    among subagents."""
    title: str | None = None
    """Title of the session, if `by` is `session`."""
    sessions: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    """Included in `input_tokens`, as those written to the cache are."""
    cache_write_tokens: int
    reasoning_tokens: int
    """Included in `output_tokens`."""
    estimated_output_tokens: int | None = None
    """Present if `output_tokens` is only a lower bound: an estimate from the recorded text. Then an estimated cost is a
    lower bound, too.
    """
    cost_usd: float | None = None
    """The cost of all tokens whose cost is known."""
    cost_estimated: bool = False
    """True if a part of the cost is an estimate, not stated by the agent."""
    unpriced_tokens: int = 0
    """Tokens whose cost is not known."""
    price_models: list[str] | None = None
    """The models whose prices were used, as `provider/model`."""


class PricesInfo(_Result, kw_only=True):
    """The prices that estimates use."""

    version: str
    """Version of the package `genai-prices`."""
    date: str | None = None
    """The latest day on which one of its prices was checked."""


class BudgetInfo(_Result, kw_only=True):
    """What was spent of a budget that the user has set."""

    period: Literal["day", "month"]
    """Today, or this month, in the time zone of the request."""
    limit_usd: float
    spent_usd: float
    """The cost that is known of the agents that no subscription pays."""


class QuotaShare(_Result, kw_only=True):
    """What one session has used since a quota's window began."""

    session: str
    title: str | None = None
    tokens: int
    """Input and output tokens. Times are known to a quarter of an hour, in long sessions less exactly."""


class Quota(_Result, kw_only=True):
    """A window of an agent's quota that has not been reset yet, as its latest event states it."""

    provider: str
    name: str | None = None
    """As the agent calls the window."""
    minutes: int | None = None
    """Length of the window."""
    used_percent: float | None = None
    resets_at: int
    """Milliseconds since the epoch."""
    ts: int
    """Time of the event, in milliseconds since the epoch."""
    sessions: list[QuotaShare]
    """The sessions of the agent that have used tokens since the window began, at most 5, the most tokens first."""


class UsageResult(_Result, kw_only=True):
    """Days are listed newest first; other rows are listed by cost, highest first."""

    rows: list[UsageRow]
    total: UsageRow
    prices: PricesInfo | None = None
    """Absent if the daemon cannot estimate costs."""
    subscriptions: list[str] | None = None
    """The agents among these that a subscription pays, by the setting `usage.subscription`: their cost is no bill."""
    budgets: list[BudgetInfo] | None = None
    """The budgets that are set, in a reply for all sessions."""
    quotas: list[Quota] | None = None
    """The windows that agents' quotas have now, in a reply for all sessions; those of an agent by their length."""
    complete: bool
    """False if there are more rows than fit into a reply."""


class EventResult(_Result, kw_only=True):
    """One event, in one view."""

    view: Literal["assistant", "display", "raw"]
    event: dict[str, Any]
    """The whole event in the view `raw`; the other views leave out what their reader does not see."""
    removed_outputs: dict[str, str] | None = None
    """Id of each output body of the event that retention has removed -> why: `was removed on … to keep …`."""


class _Open(_Result, kw_only=True):
    stream: str
    session: str
    seq: int
    """The `seq` of the event that opened it."""
    call_id: str | None = None
    name: str | None = None
    """The canonical tool, or the provider's name unchanged."""
    title: str | None = None
    ts: int | None = None
    turn: str | None = None
    agent: str | None = None
    parent: str | None = None


class OpenCall(_Open, kw_only=True):
    """A call that has no result yet."""

    raw_tool_name: str | None = None
    status: CallStatus
    preview: str | None = None


class OpenPermission(_Open, kw_only=True):
    """A permission request that has no response yet."""

    permission_id: str
    type: Literal["permission", "question", "elicitation"]
    options: list[dict[str, Any]] | None = None
    """Each `{id, name, kind}`."""
    questions: list[dict[str, Any]] | None = None
    from_call: bool = False
    """No request was seen: the question follows from the call, whose tool asks a person."""
    from_hook: bool = False
    """A hook of the agent has asked."""


class Waiting(_Result, kw_only=True):
    """What a session waits for: a permission, an answer to questions, or a form."""

    session: str
    title: str | None = None
    """Title of the session."""
    project: str | None = None
    cwd: str | None = None
    host: str | None = None
    """Name of the remote that the session comes from; absent for one of the daemon's own machine."""
    provider: str
    stream: str
    seq: int
    """The `seq` of the event that asks."""
    permission_id: str | None = None
    type: Literal["permission", "question", "elicitation"]
    call_id: str | None = None
    name: str | None = None
    """The canonical tool, or the provider's name unchanged."""
    call_title: str | None = None
    preview: str | None = None
    options: list[dict[str, Any]] | None = None
    """Each `{id, name, kind}`; where the choice holds for later requests, also `remembers`: a sentence that says for
    which."""
    withheld: str | None = None
    """Why `answer` refuses some of what the agent offers: one sentence. `options` has only what is accepted. A question
    can only be denied then, or cancelled."""
    answerable: bool = False
    """Whether `answer` reaches the agent now."""
    why_not: str | None = None
    """Why `answer` does not reach the agent: one sentence."""
    questions: list[dict[str, Any]] | None = None
    since: int | None = None
    """When it was asked, in milliseconds since the epoch."""
    agent: str | None = None
    """The subagent that asks; absent for the main agent."""
    from_call: bool = False
    """No request was seen: the question follows from the call, whose tool asks a person."""
    certain: bool = True
    """False if the session only may be waiting: the call has been open for long, its session file states no request,
    and its tool may ask for a permission."""


class WaitingResult(_Result, kw_only=True):
    """What waits for a person: what is certain first, and then what has waited longest."""

    waiting: list[Waiting]
    complete: bool
    """False if there is more than fits into a reply."""


class CallsResult(_Result, kw_only=True):
    """Open calls and pending permissions, oldest first."""

    calls: list[OpenCall]
    permissions: list[OpenPermission]
    complete: bool
    """False if there are more than fit into a reply."""


class EndedCall(_Result, kw_only=True):
    """A call that ended."""

    session: str
    title: str | None = None
    """Title of the session."""
    project: str | None = None
    host: str | None = None
    """Name of the remote that the session comes from; absent for one of the daemon's own machine."""
    provider: str
    stream: str
    call_id: str
    seq: int | None = None
    """The `seq` of the call; absent if the journal does not have it."""
    result_seq: int
    """The `seq` of its result."""
    ts: int | None = None
    """When it ended, in milliseconds since the epoch."""
    name: str
    """The canonical tool, or the provider's name unchanged."""
    call_title: str | None = None
    """The agent's title of the call."""
    preview: str | None = None
    """The one argument that identifies the call, as one line of at most 40 code points."""
    outcome: ResultStatus
    error: str | None = None
    """Why it did not complete: the beginning of `errorMessage`, as one line."""
    duration_ms: int | None = None
    """As the agent states it, or by the times of the call and its result."""
    agent: str | None = None
    """The subagent that made the call; absent for the main agent."""


class EndedCallsResult(_Result, kw_only=True):
    """Calls that ended, newest first, by when they ended."""

    calls: list[EndedCall]
    next: int | None = None
    """Present if there may be more: pass it as `before` to get them."""
    complete: bool
    """False if the search took too long, or if it is of a host and more than 5,000 sessions have such calls: some may
    not have been found."""
    upto: int
    """The `seq` of the newest event that was searched."""
    behind: int
    """Number of `seq` that are not indexed yet: newer ones, and those of a part of the index that is being rebuilt."""
    floor: int | None = None
    """Events up to this `seq` are not searched: the index would be larger than `index_bytes`."""


class OutputResult(_Result, kw_only=True):
    """A part of an output body: UTF-8 as `text`, anything else as `b64`."""

    text: str | None = None
    b64: str | None = None
    offset: int
    """Where the part starts, in `unit`."""
    length: int
    """Length of the part, in `unit`; less than requested if the reply is full or the body ends."""
    total: int
    """Length of the whole body, in `unit`."""
    unit: Literal["bytes", "lines"]
    mime_type: str
    type: str | None = None
    """The kind of a display tool's output: `file`, `command`, `image`, …"""
    path: str | None = None
    language: str | None = None
    """The language for highlighting, as Pygments names it."""


class StoreResult(_Result, kw_only=True):
    """The body is stored."""

    output_id: str


class RemoveResult(_Result, kw_only=True):
    """The session is deleted."""

    events: int
    """How many events were deleted."""


class PinResult(_Result, kw_only=True):
    """The session is pinned, or no longer pinned."""

    pinned: bool


class RereadResult(_Result, kw_only=True):
    """The files are being read."""

    files: int
    """How many files are read again: the main agents' and the subagents'."""
    missing: int
    """How many files would be read again, but do not exist any more."""


class ToAgentResult(_Result, kw_only=True):
    """The publisher has taken it for the agent."""


class AnswerResult(_Result, kw_only=True):
    """The answer was the first, and is journaled."""

    session: str
    stream: str
    seq: int
    """The `seq` of the event that asks."""
    permission_id: str
    outcome: Literal["allowed", "denied", "answered", "cancelled"]
    option_id: str | None = None
    """The option that was chosen."""
    remembers: str | None = None
    """What will be allowed, or denied, from now on."""
    by: str
    ts: int
    """When it was journaled, in milliseconds since the epoch."""
    delivered: bool
    """Whether the agent has got it. If not, it is sent again when the stream's publisher is back."""


class SendResult(_Result, kw_only=True):
    """The prompt or interrupt is journaled."""

    session: str
    stream: str
    id: str
    delivered: bool
    """Whether the agent has got it. If not, it is sent again when the stream's publisher is back."""


class PingResult(_Result, kw_only=True):
    """The daemon answers."""


RESULTS: dict[str, type[msgspec.Struct]] = {
    "sessions": SessionsResult,
    "files": FilesResult,
    "changed-files": ChangedFilesResult,
    "search": SearchResult,
    "usage": UsageResult,
    "event": EventResult,
    "calls": CallsResult,
    "ended-calls": EndedCallsResult,
    "waiting": WaitingResult,
    "output": OutputResult,
    "end": Statistics,
    "remove": RemoveResult,
    "pin": PinResult,
    "reread": RereadResult,
    "store": StoreResult,
    "to-agent": ToAgentResult,
    "answer": AnswerResult,
    "send": SendResult,
    "interrupt": SendResult,
    "ping": PingResult,
}
"""`op` of a request -> struct of its result. `stats` is missing: its result is an open object, for people and for
monitoring."""
