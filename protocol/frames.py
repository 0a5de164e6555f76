"""Control frames of the socket, protocol 1: every object with an `op`, from the client and from the daemon.

Both sides write one JSON object per line, `op` first. Event lines have no `op`. The daemon reads its clients' frames
strictly (`decode_client_frame`): a mistake is answered with one sentence, never guessed at. Clients read the daemon's
frames leniently (`decode_daemon_frame`): what a newer daemon adds is ignored.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec

from tooltap.protocol.filters import Filter
from tooltap.protocol.stats import Statistics

__all__ = [
    "ERROR_CODES",
    "Ack",
    "At",
    "CallsRequest",
    "ClientFrame",
    "DaemonFrame",
    "Done",
    "EndRequest",
    "ErrorCode",
    "ErrorFrame",
    "EventRequest",
    "Form",
    "FrameError",
    "Gap",
    "Ingest",
    "Ingesting",
    "Live",
    "OutputRequest",
    "PingRequest",
    "RemoveRequest",
    "Problem",
    "Reply",
    "Request",
    "RequestId",
    "SessionsRequest",
    "StatsRequest",
    "StoreRequest",
    "Subscribe",
    "Subscribed",
    "Suspended",
    "Welcome",
    "decode_client_frame",
    "decode_daemon_frame",
    "encode_frame",
    "sentence_of",
]

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
    "forbidden",
    "journal",
    "internal",
]

ERROR_CODES: Final[dict[ErrorCode, str]] = {
    "bad-frame": "The line is not a JSON object, or a key of the frame is unknown, missing or of the wrong type.",
    "unknown-op": "The frame's `op` is not one this daemon knows.",
    "frame-too-long": "The frame is longer than the daemon reads; the connection is closed.",
    "wrong-mode": "The connection already carries a subscription, or an ingested stream.",
    "not-found": "There is no event, output or stream of that name.",
    "expired": "There was such an output, but it is not kept any more.",
    "too-large": "The answer does not fit into one reply: ask for less of it; or what is to be stored does not fit.",
    "unknown-dialect": "There is no dialect of that name; the message lists those there are.",
    "stream-exists": "Raw lines onto a stream that exists need `from`, the number of lines the daemon has.",
    "not-tapped": "A line of a `tapped` connection is not a tapped line; the stream is suspended before it.",
    "superseded": "Another connection has taken the stream over.",
    "too-many-connections": "The daemon serves as many connections as it is configured to.",
    "too-many-streams": "As many streams as the daemon is configured to have are unended; end some first.",
    "not-ended": "The session is still being written; end its streams first.",
    "forbidden": "The client runs as another user.",
    "journal": "The journal could not be written or read; what was acknowledged is safe.",
    "internal": "A fault of the daemon; its log says more.",
}

RequestId: TypeAlias = str | int | None
Form: TypeAlias = Literal["events", "display"]
"""What a subscription delivers."""
Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
StreamId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~/-]{1,200}\Z")]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class _Client(msgspec.Struct, tag_field="op", rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    pass


class Subscribe(_Client, kw_only=True, tag="subscribe"):
    """Event lines from `after` on; one subscription per connection."""

    after: str | Seq = "now"
    """`start`, `now`, the `seq` of the last event handled, or `<journal>:<seq>`."""
    filter: Filter = Filter()
    partials: bool = False
    """Live previews, which have no `seq` and may be dropped."""
    follow: bool = True
    """False: the connection ends where the journal ended when the subscription began."""
    as_: Form = msgspec.field(default="events", name="as")
    """`display`: what a user interface shows of these events (see `tooltap.protocol.display`)."""


class Ingest(_Client, kw_only=True, tag="ingest"):
    """Everything after this frame is a stream's lines."""

    stream: StreamId | None = None
    """Made by the daemon if absent."""
    framing: Literal["raw", "tapped"] = "raw"
    dialect: Name = "auto"
    provider: Name | None = None
    session: Name | None = None
    agent: Name | None = None
    parent: Name | None = None
    mcp_servers: Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)] = ()
    """MCP servers of the agent, where its stream does not name them: tool names are split only at a known server."""
    from_: Count | None = msgspec.field(default=None, name="from")
    """Raw framing onto a stream that exists: the lines the daemon has; the bytes start after them."""


class _Request(_Client, kw_only=True):
    id: RequestId = None
    """Comes back with the reply."""


class SessionsRequest(_Request, kw_only=True, tag="sessions"):
    """Newest first."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    before: Seq | None = None
    """`next` of the page before."""


class EventRequest(_Request, kw_only=True, tag="event"):
    seq: Seq
    view: Literal["assistant", "display", "raw"] = "raw"
    """`assistant`: what the model saw; `display`: what the user sees; `raw`: the event as it is journaled."""


class CallsRequest(_Request, kw_only=True, tag="calls"):
    """Open calls and pending permissions."""

    session: Name | None = None


class OutputRequest(_Request, kw_only=True, tag="output"):
    """A part of a body kept aside."""

    output_id: Name
    offset: Count = 0
    """In `unit`."""
    length: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 2**20
    """In `unit`; a reply holds at most 1 MiB, however much is asked for."""
    unit: Literal["bytes", "lines"] = "bytes"


class StoreRequest(_Request, kw_only=True, tag="store"):
    """Keep a body for a time: the `bytes` bytes right behind the frame's newline. Gives its `outputId`."""

    bytes: Count
    mime_type: Name
    type: Name
    """What it is: `file`, `command`, `image`, …"""
    path: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None
    language: Name | None = None
    """For highlighting, a name as Pygments has it: `python`, `json`."""


class StatsRequest(_Request, kw_only=True, tag="stats"):
    pass


class EndRequest(_Request, kw_only=True, tag="end"):
    """End a stream: what is open in it is closed as interrupted. Gives its statistics."""

    stream: StreamId


class RemoveRequest(_Request, kw_only=True, tag="remove"):
    """Delete a session that is over: its events and their bodies. Gives how many events went."""

    session: Name


class PingRequest(_Request, kw_only=True, tag="ping"):
    pass


Request: TypeAlias = (
    SessionsRequest
    | EventRequest
    | CallsRequest
    | OutputRequest
    | StatsRequest
    | EndRequest
    | RemoveRequest
    | PingRequest
)
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
    """Random id of this journal, for cursors that are kept: `<journal>:<seq>`."""
    oldest: int
    """`seq` of the oldest event kept; `latest + 1` if there is none."""
    latest: int


class Subscribed(_Daemon, kw_only=True, tag="subscribed"):
    """Event lines with a `seq` greater than `after` follow."""

    after: int
    journal: str
    oldest: int
    latest: int


class Live(_Daemon, kw_only=True, tag="live"):
    """Everything up to `seq` has been delivered; what follows is live. With `follow: false`, the end."""

    seq: int


class At(_Daemon, kw_only=True, tag="at"):
    """Nothing up to `seq` is missing: a cursor for a subscription whose filter lets little through."""

    seq: int


class Gap(_Daemon, kw_only=True, tag="gap"):
    """Events from `from` to `to`, inclusive, are gone, some or all; the cursor after it is `to`.

    `retention`: they were too old. `reset`: the cursor was of another journal, or beyond this one's end; the oldest
    event follows (`from` is 1, and `to` is 0 if nothing of this journal is gone).
    """

    from_: int = msgspec.field(name="from")
    to: int
    reason: Literal["retention", "reset"]


class Ingesting(_Daemon, kw_only=True, tag="ingesting"):
    """How far the daemon is with the stream; the publisher goes on after line `lines`."""

    stream: str
    state: Literal["new", "suspended", "ended"]
    lines: int
    dialect: str
    """The one in force, else the one asked for."""
    crc: str | None = None
    """CRC-32 (8 hex digits) of line `crcLine`, the last line really received."""
    crc_line: int | None = None


class Ack(_Daemon, kw_only=True, tag="ack"):
    """The first `lines` lines of the stream are durable."""

    lines: int


class Suspended(_Daemon, kw_only=True, tag="suspended"):
    """The publisher left without `end`; it may go on after line `lines`."""

    lines: int


class Done(Statistics, kw_only=True, tag_field="op", tag="done"):
    """The stream's end is durable. The statistics of the whole stream."""


class Problem(msgspec.Struct, kw_only=True):
    code: str
    """See `ERROR_CODES`."""
    message: str
    """One sentence."""


class ErrorFrame(_Daemon, kw_only=True, tag="error"):
    """A mistake on this connection; see `ERROR_CODES`."""

    code: str
    message: str


class Reply(_Daemon, kw_only=True, tag="reply"):
    id: RequestId = None
    ok: bool
    result: Any = None
    error: Problem | None = None


DaemonFrame: TypeAlias = (
    Welcome | Subscribed | Live | At | Gap | Ingesting | Ack | Suspended | Done | ErrorFrame | Reply
)


class FrameError(ValueError):
    """A client's frame is wrong; the message is one sentence for its author."""

    def __init__(self, code: ErrorCode, message: str, *, request_id: RequestId = None, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id
        """Of the request that is wrong, where it has one: the answer is a reply."""
        self.fatal = fatal
        """What follows cannot be trusted to be frames."""


class _Head(msgspec.Struct):
    op: str
    id: RequestId = None


_encoder = msgspec.json.Encoder()
_client_decoder: msgspec.json.Decoder[ClientFrame] = msgspec.json.Decoder(ClientFrame)
_daemon_decoder: msgspec.json.Decoder[DaemonFrame] = msgspec.json.Decoder(DaemonFrame)
_head_decoder = msgspec.json.Decoder(_Head)
_CLIENT_OPS = {kind.__struct_config__.tag for kind in get_args(ClientFrame)}


def encode_frame(frame: ClientFrame | DaemonFrame) -> bytes:
    """The frame as one line, newline included."""
    return _encoder.encode(frame) + b"\n"


def decode_daemon_frame(line: bytes) -> DaemonFrame | None:
    """A frame from the daemon; None for one this version does not know. Raises `msgspec.DecodeError`."""
    try:
        return _daemon_decoder.decode(line)
    except msgspec.ValidationError:
        return None


def decode_client_frame(line: bytes) -> ClientFrame:
    """A frame from a client. Raises `FrameError`."""
    try:
        return _client_decoder.decode(line)
    except msgspec.ValidationError as error:
        raise _explain(line, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _not_json() from None


def _not_json() -> FrameError:
    return FrameError("bad-frame", "the line is not valid JSON", fatal=True)


def _explain(line: bytes, error: msgspec.ValidationError) -> FrameError:
    try:
        head = _head_decoder.decode(line)
    except msgspec.ValidationError as failure:
        if not line.lstrip().startswith(b"{"):
            return FrameError("bad-frame", "a frame is a JSON object with an `op`", fatal=True)
        return FrameError("bad-frame", f"a frame is a JSON object with an `op`; {sentence_of(str(failure))}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _not_json()
    if head.op not in _CLIENT_OPS:
        known = ", ".join(sorted(map(str, _CLIENT_OPS)))
        return FrameError("unknown-op", f"unknown op {head.op[:100]!r}; known are {known}", request_id=head.id)
    # Behind these come a stream's lines, or a body, which are no frames: nothing behind a wrong one can be read.
    fatal = head.op in ("ingest", "store")
    return FrameError("bad-frame", f"{head.op}: {sentence_of(str(error))}", request_id=head.id, fatal=fatal)


def sentence_of(text: str) -> str:
    """msgspec's "Expected `str`, got `int` - at `$.filter.kind[0]`" with the place first."""
    what, _, place = text.partition(" - at `$")
    what = what[:1].lower() + what[1:]
    key = re.sub(r"^\.|`$", "", place)
    return f"`{key}`: {what}" if key else what
