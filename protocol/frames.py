"""Control frames of the socket, protocol 1: the JSON objects with an `op` that clients and the daemon send. First the
requests, whose results are in `replies.py`; then all other frames.

Both sides write one JSON object per line, with `op` first. Event lines have no `op`. The daemon is strict about its
clients' frames (`decode_client_frame`): it answers a mistake with one sentence and never guesses. Only in frames of a
client that says that it is newer (`speaks`), it ignores keys that it does not know. Clients are lenient about the
daemon's frames (`decode_daemon_frame`): they ignore what a newer daemon adds.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec

from tooltap import __version__
from tooltap.protocol.events import ResultStatus
from tooltap.protocol.filters import ALL_EVENTS, Filter, Values
from tooltap.protocol.replies import (
    AnswerResult,
    CallsResult,
    ChangedFilesResult,
    EndedCallsResult,
    EventResult,
    FilesResult,
    OutputResult,
    PingResult,
    PinResult,
    RemoveResult,
    RereadResult,
    SearchResult,
    SendResult,
    SessionsResult,
    SessionStatus,
    StoreResult,
    ToAgentResult,
    UsageKey,
    UsageResult,
    WaitingResult,
)
from tooltap.protocol.stats import Statistics

__all__ = [
    "ERROR_CODES",
    "PROMPT_LENGTH",
    "Ack",
    "At",
    "ClientFrame",
    "DaemonFrame",
    "Done",
    "ErrorCode",
    "ErrorFrame",
    "Form",
    "FrameError",
    "Gap",
    "Ingest",
    "Ingesting",
    "Live",
    "Problem",
    "Reply",
    "Subscribe",
    "Subscribed",
    "SubscribedForm",
    "Suspended",
    "ToAgent",
    "Welcome",
    "decode_client_frame",
    "decode_daemon_frame",
    "encode_frame",
    "sentence_of",
]

RequestId: TypeAlias = str | int | None
Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
StreamId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~/-]{1,200}\Z")]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Release: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9}){0,3}[A-Za-z0-9.+-]{0,50}\Z")]


class ClientStruct(
    msgspec.Struct, kw_only=True, tag_field="op", rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The common part of all client frames; unknown keys are errors, unless the client is newer than the daemon."""

    speaks: Release | None = None
    """The release of tooltap whose frames the client writes, such as `0.2.0`. If it is newer than the daemon, keys that
    the daemon does not know have no effect; the `daemon` of the `welcome` frame tells the client which one it talks to.
    """


R = TypeVar("R")


class _Request(ClientStruct, Generic[R], kw_only=True):
    id: RequestId = None
    """Id of the request; the reply repeats it."""


RequestFor = _Request
"""A request whose result is an `R`."""


class SessionsRequest(_Request[SessionsResult], kw_only=True, tag="sessions"):
    """Lists sessions, newest first. A session matches if it has one of the values of each filter that is given."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    before: Seq | None = None
    """`next` of the previous page, in the order `seq`."""
    order: Literal["seq", "time"] = "seq"
    """`seq`: by when the last event was ingested; `time`: by when it happened."""
    cursor: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    """`cursor` of the previous page."""
    session: Values | None = None
    status: Annotated[tuple[SessionStatus, ...], msgspec.Meta(min_length=1, max_length=6)] | None = None
    provider: Values | None = None
    project: Values | None = None
    since: Seq | None = None
    """Only sessions whose last event happened then or later, in milliseconds since the epoch."""
    until: Seq | None = None
    """Only sessions whose first event happened before then."""
    changed_after: Seq | None = None
    """Only sessions with events after this `seq`."""
    host: Values | None = None
    """Only sessions of these remotes; `.`: those of the daemon's own machine."""
    origin: Values | None = None
    """Only sessions that come from one of these: they were forked from it, continue it, or were started by it."""
    empty: bool = False
    """Also list sessions in which nothing was asked, said or done. Sessions that are named are listed in any case."""
    facets: bool = False
    """Also count all sessions that match, by `status`, `provider` and `project`."""


class SearchRequest(_Request[SearchResult], kw_only=True, tag="search"):
    """Searches the text of all events: messages, reasoning, calls, and outputs; of a long text the beginning and
    the end. Hits come newest first, by when their events happened; before them, those of the page that have the query
    sign for sign."""

    query: Annotated[str, msgspec.Meta(max_length=1_000)]
    """Words and `"quoted phrases"`; an event has to have all of them. The last word may be the beginning of one. Empty:
    every event that has a text is a hit."""
    session: Values | None = None
    provider: Values | None = None
    """Names of agents."""
    project: Values | None = None
    """Directories of the sessions, parents of these directories, or the last part of their names."""
    status: tuple[SessionStatus, ...] | None = None
    """Statuses of the sessions."""
    host: Values | None = None
    """Hosts of the sessions: names of remotes, or `.` for the daemon's own machine."""
    kind: Values | None = None
    tool: Values | None = None
    """The canonical or the raw name of the tool."""
    outcome: Annotated[tuple[ResultStatus, ...], msgspec.Meta(min_length=1, max_length=5)] | None = None
    """Only events about calls that ended like this: the `status` of their results."""
    since: Count | None = None
    until: Count | None = None
    """Times of the events, in milliseconds since the epoch; they count as whole seconds."""
    before: Seq | None = None
    """`next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    per_session: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    """Maximum number of hits of one session."""
    counts: bool = True
    """Whether to count all hits, by session."""


class UsageRequest(_Request[UsageResult], kw_only=True, tag="usage"):
    """Asks for sums of tokens and costs, grouped `by` one property. A session counts if it has one of the values of
    each filter that is given."""

    by: UsageKey = "day"
    """`agent` is the provider; a `subagent` is named with its session, as `<session>/<subagent>`."""
    session: Values | None = None
    provider: Values | None = None
    project: Values | None = None
    host: Values | None = None
    """Names of remotes; `.`: the daemon's own machine."""
    since: Seq | None = None
    """Only days from the one that contains this time, in milliseconds since the epoch."""
    until: Seq | None = None
    """Only days that begin before this time, in milliseconds since the epoch."""
    zone: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] | None = None
    """IANA name of the time zone of the days, such as `Europe/Berlin`; absent: UTC."""


class EventRequest(_Request[EventResult], kw_only=True, tag="event"):
    """Asks for one event."""

    seq: Seq
    view: Literal["assistant", "display", "raw"] = "raw"
    """`assistant`: what the model saw; `display`: what the user sees; `raw`: the event as it is in the journal."""


class FilesRequest(_Request[FilesResult], kw_only=True, tag="files"):
    """Asks what a session changed: its files, or the diff of one."""

    session: Name
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    """Path of the file, as in the list or absolute; for a renamed file, the old path works too."""


class ChangedFilesRequest(_Request[ChangedFilesResult], kw_only=True, tag="changed-files"):
    """Asks which files the sessions changed, and which session changed each. A session counts if it has one of the
    values of each filter that is given."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    order: Literal["changes", "lines", "time"] = "changes"
    """What comes first: files with the most changes, those with the most changed lines, or those changed last."""
    session: Values | None = None
    provider: Values | None = None
    project: Values | None = None
    host: Values | None = None
    """Names of remotes; `.`: the daemon's own machine."""
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    """Only files with this text in their path, in upper or lower case."""
    since: Seq | None = None
    """Only changes made then or later, in milliseconds since the epoch."""
    until: Seq | None = None
    """Only changes made before then. Changes within a quarter of an hour count at the time of the last of them."""


class CallsRequest(_Request[CallsResult], kw_only=True, tag="calls"):
    """Lists open calls and pending permissions."""

    session: Name | None = None


class WaitingRequest(_Request[WaitingResult], kw_only=True, tag="waiting"):
    """Lists what waits for a person: permissions, questions and forms that have no answer yet."""

    session: Values | None = None
    provider: Values | None = None
    project: Values | None = None
    """Folders of the sessions' projects."""
    host: Values | None = None
    """Hosts of the sessions: names of remotes, or `.` for the daemon's own machine."""
    may_after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 60_000
    """Milliseconds after which an open call of a followed session file may be waiting for a permission. Such files
    state no requests."""


class EndedCallsRequest(_Request[EndedCallsResult], kw_only=True, tag="ended-calls"):
    """Lists the calls of all sessions that ended, newest first, by when they ended. A call matches if it has one of the
    values of each filter that is given."""

    outcome: Annotated[tuple[ResultStatus, ...], msgspec.Meta(min_length=1, max_length=5)] | None = None
    """How the call ended: the `status` of its result."""
    tool: Values | None = None
    """The canonical or the raw name of the tool."""
    provider: Values | None = None
    """Names of agents."""
    project: Values | None = None
    """Directories of the sessions, parents of these directories, or the last part of their names."""
    host: Values | None = None
    """Hosts of the sessions: names of remotes, or `.` for the daemon's own machine."""
    session: Values | None = None
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None = None
    """Path of a file that the call names, or the end of its path: `src/app.py`, `app.py`."""
    since: Count | None = None
    until: Count | None = None
    """Times of the ends, in milliseconds since the epoch; they count as whole seconds."""
    before: Seq | None = None
    """`next` of the previous page."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


class OutputRequest(_Request[OutputResult], kw_only=True, tag="output"):
    """Asks for a part of an output body."""

    output_id: Name
    offset: Count = 0
    """Where the part starts, in `unit`."""
    length: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 2**20
    """Length of the part, in `unit`; a reply has at most 1 MiB, however much is requested."""
    unit: Literal["bytes", "lines"] = "bytes"


class StoreRequest(_Request[StoreResult], kw_only=True, tag="store"):
    """Stores a body for a limited time: the `bytes` bytes that follow the frame's newline. Returns its `outputId`."""

    bytes: Count
    mime_type: Name
    type: Name
    """The kind of body: `file`, `command`, `image`, …"""
    path: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None
    language: Name | None = None
    """The language for highlighting, as Pygments names it: `python`, `json`."""


class StatsRequest(_Request[dict[str, Any]], kw_only=True, tag="stats"):
    """Asks for the daemon's statistics."""

    part: Literal["following", "summary"] | None = None
    """`following`: only this key of them, cheap enough to ask for with every other request. `summary`: all but
    `perStream`. Default: all."""
    stream: StreamId | None = None
    """List only this stream in `perStream`, whatever its age; `perStream` is empty if the journal has no such stream.
    Default: the streams with the newest commits."""


class EndRequest(_Request[Statistics], kw_only=True, tag="end"):
    """Ends a stream: open calls are closed as interrupted. Returns its statistics."""

    stream: StreamId


class ToAgentRequest(_Request[ToAgentResult], kw_only=True, tag="to-agent"):
    """Sends something to the agent of a stream, over the connection of the stream's publisher, which must have said
    `toAgent`. Notices say who has sent it: `send`, and then `send-delivered` or `send-failed`. It is refused with
    `already-answered` if it responds to a request that was answered. To answer what an agent asks, send `answer`; to
    prompt an agent, `send`: they are given to the agent once."""

    stream: StreamId
    payload: Any
    """Any JSON value. Of an object, `line` and `answers` are read, as in the frame that the publisher gets."""
    by: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Who sends it, as the client calls them. The daemon adds how it came."""


class AnswerRequest(_Request[AnswerResult], kw_only=True, tag="answer"):
    """Answers what an agent asks. The first answer wins; others are refused with `already-answered`."""

    permission_id: Name
    stream: StreamId | None = None
    """The stream of the question, if several streams have one with this id."""
    outcome: Literal["allowed", "denied", "answered", "cancelled"]
    option_id: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    """One of the offered options. Default: the option of the outcome that holds for this request alone, or with
    `remember` the one that also holds for later requests."""
    remember: bool = False
    answers: dict[str, Any] | None = None
    """With `answered`: answer to each question, a string or a list of strings, by the question's `id`, or by its text
    if it has none; or the content of the form."""
    message: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None
    """With `denied`: the reason, for the agent."""
    by: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Who answers, as the client calls them. The daemon adds how the answer came."""


class SendRequest(_Request[SendResult], kw_only=True, tag="send"):
    """Sends a prompt to the agent of a session; in mid-turn, it steers the agent. Notices with the receipt's `id` as
    `sendId` say what becomes of it: `send`, `send-delivered` or `send-failed`, and `send-accepted` or `send-refused`
    when the agent confirms or refuses it."""

    session: Name
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] | None = None
    """Chosen by the client: a prompt that is sent again with the same key is not given to the agent again."""
    by: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class InterruptRequest(_Request[SendResult], kw_only=True, tag="interrupt"):
    """Interrupts the turn of a session. What becomes of it is said as for `send`."""

    session: Name
    by: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class RemoveRequest(_Request[RemoveResult], kw_only=True, tag="remove"):
    """Deletes an ended session: its events and their bodies. Returns the number of events."""

    session: Name


class PinRequest(_Request[PinResult], kw_only=True, tag="pin"):
    """Pins a session, so that retention never deletes it, or unpins it."""

    session: Name
    pinned: bool = True


class RereadRequest(_Request[RereadResult], kw_only=True, tag="reread"):
    """Reads session files again whose events retention has deleted: those of these sessions, or of these agents; all of
    them if neither is given. Files whose events are still in the journal are not read again."""

    session: Values | None = None
    """Ids of sessions, or their beginnings."""
    agent: Values | None = None
    """Names of agents, as in the setting `follow`."""


class PingRequest(_Request[PingResult], kw_only=True, tag="ping"):
    """Asks whether the daemon answers."""


Request: TypeAlias = (
    SessionsRequest
    | SearchRequest
    | UsageRequest
    | EventRequest
    | FilesRequest
    | CallsRequest
    | EndedCallsRequest
    | WaitingRequest
    | OutputRequest
    | StatsRequest
    | EndRequest
    | ToAgentRequest
    | AnswerRequest
    | SendRequest
    | InterruptRequest
    | RemoveRequest
    | PinRequest
    | RereadRequest
    | PingRequest
    | ChangedFilesRequest
)


# -- other frames -------------------------------------------------------------------------------------------------

ErrorCode: TypeAlias = Literal[
    "bad-frame",
    "unknown-op",
    "frame-too-long",
    "wrong-mode",
    "not-found",
    "expired",
    "too-large",
    "unknown-dialect",
    "stream-exists",
    "not-tapped",
    "superseded",
    "too-many-connections",
    "too-many-streams",
    "not-ended",
    "no-publisher",
    "refused",
    "already-answered",
    "not-offered",
    "ambiguous",
    "no-index",
    "forbidden",
    "corrupt",
    "journal",
    "internal",
]

ERROR_CODES: Final[dict[ErrorCode, str]] = {
    "bad-frame": "The line is not a JSON object, or a key of the frame is unknown, missing or of the wrong type.",
    "unknown-op": "This daemon does not know the frame's `op`.",
    "frame-too-long": "The frame is longer than the daemon accepts; the connection is closed.",
    "wrong-mode": "The connection already has a subscription, or ingests a stream.",
    "not-found": "There is no such event, output or stream.",
    "expired": "There was such an output, but it is no longer stored.",
    "too-large": "The result does not fit into one reply, so request less; or the body to be stored is too large.",
    "unknown-dialect": "There is no such dialect; the message lists the known ones.",
    "stream-exists": "Raw lines for a stream that exists need `from`, the number of lines that the daemon has.",
    "not-tapped": "A line with `tapped` framing is not a tapped line; the stream is suspended before it.",
    "superseded": "Another connection has taken the stream over.",
    "too-many-connections": "The daemon already serves `max_connections` connections.",
    "too-many-streams": "`max_streams` streams have not ended; end some first.",
    "not-ended": "The session is still being written; end its streams first.",
    "no-publisher": "No publisher of the stream is connected.",
    "refused": "The publisher of the stream sends nothing to its agent, or not this; the message says why.",
    "already-answered": "Another answer was first; the message says whose and when.",
    "not-offered": "The agent does not offer this answer.",
    "ambiguous": "Several streams have an open question with this id: name the stream.",
    "no-index": "There is no search index: it is turned off, cannot be opened, or is being rebuilt.",
    "forbidden": "The client runs as another user.",
    "corrupt": "What was asked for is damaged in the journal.",
    "journal": "The journal could not be written or read; acknowledged lines are safe.",
    "internal": "A fault of the daemon; its log has the details.",
}

Form: TypeAlias = Literal["events", "display"]
SubscribedForm: TypeAlias = Literal["events", "display", "ag-ui"]
FOLDER_LENGTH: Final = 4_096
"""Characters of the path of a publisher's folder."""
PROMPT_LENGTH: Final = 131_072
"""Characters of a publisher's prompt. Linux takes no longer argument."""


class Subscribe(ClientStruct, kw_only=True, tag="subscribe"):
    """Asks for the event lines after `after`; one subscription per connection."""

    after: str | Seq = "now"
    """`start`, `now`, the `seq` of the last event that the client handled, or `<journal>:<seq>`."""
    filter: Filter = ALL_EVENTS
    partials: bool = False
    """Whether to send partials, which have no `seq` and may be dropped."""
    follow: bool = True
    """If false, the connection ends where the journal ended when the subscription started."""
    as_: SubscribedForm = msgspec.field(default="events", name="as")
    """`display` for display events: what a user interface shows of the events. `ag-ui` for the events of the AG-UI
    protocol 1.0: `filter` names one session and nothing else, and an `at` frame follows the events of each event."""


class Ingest(ClientStruct, kw_only=True, tag="ingest"):
    """Starts a stream: everything after this frame is its lines."""

    stream: StreamId | None = None
    """The daemon chooses one if it is absent."""
    framing: Literal["raw", "tapped"] = "raw"
    dialect: Name = "auto"
    provider: Name | None = None
    session: Name | None = None
    agent: Name | None = None
    parent: Name | None = None
    mcp_servers: Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)] = ()
    """MCP servers of the agent, if its stream does not name them: tool names are split only at known servers."""
    started: Count | None = None
    """When the agent was started, in milliseconds since the epoch. It is compared with a session file that is also
    followed: what the agent wrote from then on is in this stream.
    """
    cwd: Annotated[str, msgspec.Meta(min_length=1, max_length=FOLDER_LENGTH)] | None = None
    """The folder in which the agent was started. Sessions whose stream states no folder get it."""
    prompt: Annotated[str, msgspec.Meta(max_length=PROMPT_LENGTH)] | None = None
    """The agent's prompt, if the publisher knows it and the stream may lack it: it becomes the user's first message,
    unless the stream contains that message.
    """
    to_agent: bool = False
    """The publisher can write to its agent: it gets `to-agent` frames, and answers them. With `tapped` framing only."""
    from_: Count | None = msgspec.field(default=None, name="from")
    """With raw framing, for a stream that exists: how many lines the daemon has; the bytes start after them."""


ClientFrame: TypeAlias = Subscribe | Ingest | StoreRequest | Request


class _Daemon(msgspec.Struct, tag_field="op", rename="camel", omit_defaults=True):
    pass


class Welcome(_Daemon, kw_only=True, tag="welcome"):
    """The first line of every connection."""

    protocol: int
    schema: int
    daemon: str
    """`tooltap/<version>`."""
    journal: str
    """The random id of this journal, for cursors that a client stores: `<journal>:<seq>`."""
    oldest: int
    """The `seq` of the oldest event; `latest + 1` if there is none."""
    latest: int


class Subscribed(_Daemon, kw_only=True, tag="subscribed"):
    """Event lines with a `seq` greater than `after` follow. It is sent again, followed by a `gap`, if the journal is
    replaced by another one.
    """

    after: int
    journal: str
    oldest: int
    latest: int


class Live(_Daemon, kw_only=True, tag="live"):
    """Everything up to `seq` has been delivered; what follows is live. With `follow: false` this is the end."""

    seq: int


class At(_Daemon, kw_only=True, tag="at"):
    """Nothing up to `seq` is missing: a cursor for a subscription whose filter matches few events."""

    seq: int


class Gap(_Daemon, kw_only=True, tag="gap"):
    """Some or all events from `from` to `to`, inclusive, are missing; those that still exist follow.

    `retention`: they were too old. `corrupt`: they are damaged on disk. `reset`: the cursor belongs to another journal,
    or is beyond the end of this one; the oldest event follows (`from` is 1, and `to` is 0 if no event of this journal
    is missing).
    """

    from_: int = msgspec.field(name="from")
    to: int
    reason: Literal["retention", "reset", "corrupt"]


class Ingesting(_Daemon, kw_only=True, tag="ingesting"):
    """How many lines of the stream the daemon has; the publisher resumes after line `lines`."""

    stream: str
    state: Literal["new", "suspended", "ended"]
    lines: int
    """Lines of the stream that are stored. The next line received is line `lines` + 1: lines are counted, not compared,
    so a publisher that sends an earlier line again has its events twice."""
    dialect: str
    """The dialect of the stream if it is known, else the requested one."""
    crc: str | None = None
    """CRC-32 (8 hex digits) of line `crcLine`, the last line that was actually received."""
    crc_line: int | None = None
    """Number of that line, counted from 1."""


class Ack(_Daemon, kw_only=True, tag="ack"):
    """The first `lines` lines of the stream are durable."""

    lines: int


class Suspended(_Daemon, kw_only=True, tag="suspended"):
    """The publisher left without `end`; it may resume after line `lines`."""

    lines: int


class ToAgent(_Daemon, kw_only=True, tag="to-agent"):
    """Something for the agent. Only publishers whose `ingest` frame has `toAgent` get it. They answer with the line
    `{"op":"to-agent","id":…}` once the agent has it, or with `"refused":"<why>"` in it if it never will."""

    id: int
    """Distinguishes the frames of one connection; the answer repeats it."""
    payload: Any
    """A `ForAgent`, or whatever a client sent with the request `to-agent`."""


class Done(Statistics, kw_only=True, tag_field="op", tag="done"):
    """The end of the stream is durable. Has the statistics of the whole stream."""


class Problem(msgspec.Struct, kw_only=True):
    """The reason why a request failed."""

    code: str
    """One of the error codes."""
    message: str
    """One sentence."""


class ErrorFrame(_Daemon, kw_only=True, tag="error"):
    """A mistake on this connection."""

    code: str
    message: str


class Reply(_Daemon, kw_only=True, tag="reply"):
    """The reply to a request: `result` if `ok`, else `error`."""

    id: RequestId = None
    ok: bool
    result: Any = None
    error: Problem | None = None


DaemonFrame: TypeAlias = (
    Welcome | Subscribed | Live | At | Gap | Ingesting | Ack | Suspended | ToAgent | Done | ErrorFrame | Reply
)


class FrameError(ValueError):
    """A client's frame is wrong. The message is one sentence for the author of the client."""

    def __init__(self, code: ErrorCode, message: str, *, request_id: RequestId = None, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id
        """The `id` of the request, if it has one: then the daemon answers with a reply, else with an error frame."""
        self.fatal = fatal
        """True if the connection must be closed, because the following bytes may not be frames."""


class _Head(msgspec.Struct):
    op: str
    id: RequestId = None
    speaks: str | None = None


_encoder = msgspec.json.Encoder()
_client_decoder: msgspec.json.Decoder[ClientFrame] = msgspec.json.Decoder(ClientFrame)
_daemon_decoder: msgspec.json.Decoder[DaemonFrame] = msgspec.json.Decoder(DaemonFrame)
_head_decoder = msgspec.json.Decoder(_Head)
_CLIENT_KINDS: dict[str, type[ClientStruct]] = {str(kind.__struct_config__.tag): kind for kind in get_args(ClientFrame)}


def encode_frame(frame: ClientFrame | DaemonFrame) -> bytes:
    """Return the frame as one line, with its newline."""
    return _encoder.encode(frame) + b"\n"


def decode_daemon_frame(line: bytes) -> DaemonFrame | None:
    """Decode a frame from the daemon; None for one that this version does not know. Raises `msgspec.DecodeError`."""
    try:
        return _daemon_decoder.decode(line)
    except msgspec.ValidationError:
        return None


def decode_client_frame(line: bytes) -> ClientFrame:
    """Decode a frame from a client. Raises `FrameError`."""
    try:
        try:
            return _client_decoder.decode(line)
        except msgspec.ValidationError as error:
            if (known := _known_part(line)) is None:
                raise _explain(line, error) from None
        try:
            return _client_decoder.decode(known)
        except msgspec.ValidationError as error:
            raise _explain(line, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise FrameError("bad-frame", "the line is not valid JSON", fatal=True) from None


def _known_part(line: bytes) -> bytes | None:
    """The frame of a newer client without the keys that this version does not know; None for any other line."""
    try:
        head = _head_decoder.decode(line)
    except msgspec.ValidationError:
        return None
    kind = _CLIENT_KINDS.get(head.op)
    if kind is None or head.speaks is None or _numbers(head.speaks) <= _numbers(__version__):
        return None
    frame = msgspec.json.decode(line)
    return msgspec.json.encode({"op": head.op, **_known_keys(frame, kind)})


def _known_keys(value: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    kept = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            inner = value[field.encode_name]
            is_struct = (
                isinstance(inner, dict) and isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
            )
            kept[field.encode_name] = _known_keys(inner, field.type) if is_struct else inner
    return kept


def _numbers(release: str) -> list[int]:
    """The numbers at the beginning of a release, for comparison: `0.2.0rc1` is [0, 2, 0]."""
    found = re.match(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}", release)
    return [] if found is None else [int(part) for part in found[0].split(".")]


def _explain(line: bytes, error: msgspec.ValidationError) -> FrameError:
    try:
        head = _head_decoder.decode(line)
    except msgspec.ValidationError as failure:
        if not line.lstrip().startswith(b"{"):
            return FrameError("bad-frame", "a frame is a JSON object with an `op`", fatal=True)
        return FrameError("bad-frame", f"a frame is a JSON object with an `op`; {sentence_of(str(failure))}")
    if head.op not in _CLIENT_KINDS:
        known = ", ".join(sorted(_CLIENT_KINDS))
        return FrameError("unknown-op", f"unknown op {head.op[:100]!r}; known are {known}", request_id=head.id)
    # A stream's lines or a body follow these frames: after a wrong one, nothing that follows can be read as a frame.
    fatal = head.op in ("ingest", "store")
    return FrameError("bad-frame", f"{head.op}: {sentence_of(str(error))}", request_id=head.id, fatal=fatal)


def sentence_of(text: str) -> str:
    """Rewrite an error message of msgspec, such as "Expected `str`, got `int` - at `$.filter.kind[0]`", so that the
    place comes first."""
    what, _, place = text.partition(" - at `$")
    what = what[:1].lower() + what[1:]
    key = re.sub(r"^\.|`$", "", place)
    return f"`{key}`: {what}" if key else what
