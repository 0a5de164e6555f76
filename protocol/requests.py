"""Requests that clients send over the socket: one struct for each `op` that has a reply.

`tooltap.protocol.replies` has their results.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tooltap.protocol.filters import Values
from tooltap.protocol.replies import SessionStatus, UsageKey

__all__ = [
    "CallsRequest",
    "ClientStruct",
    "Count",
    "EndRequest",
    "EventRequest",
    "FilesRequest",
    "Name",
    "OutputRequest",
    "PingRequest",
    "RemoveRequest",
    "Request",
    "RequestId",
    "SearchRequest",
    "Seq",
    "SessionsRequest",
    "StatsRequest",
    "StoreRequest",
    "StreamId",
    "ToAgentRequest",
    "UsageRequest",
]

RequestId: TypeAlias = str | int | None
Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
StreamId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._~/-]{1,200}\Z")]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class ClientStruct(msgspec.Struct, tag_field="op", rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The common part of all client frames; unknown keys are errors."""


class _Request(ClientStruct, kw_only=True):
    id: RequestId = None
    """The reply repeats it."""


class SessionsRequest(_Request, kw_only=True, tag="sessions"):
    """Lists sessions, newest first. A session matches if it has one of the values of each filter that is given."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    before: Seq | None = None
    """`next` of the previous page, in the order `seq`."""
    order: Literal["seq", "time"] = "seq"
    """`seq`: by when the last event was ingested; `time`: by when it happened."""
    cursor: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    """`cursor` of the previous page."""
    session: Values | None = None
    status: Annotated[tuple[SessionStatus, ...], msgspec.Meta(min_length=1, max_length=5)] | None = None
    provider: Values | None = None
    project: Values | None = None
    since: Seq | None = None
    """Only sessions whose last event happened then or later, in milliseconds since the epoch."""
    until: Seq | None = None
    """Only sessions whose last event happened before then."""
    changed_after: Seq | None = None
    """Only sessions with events after this `seq`."""
    facets: bool = False
    """Also count all sessions that match, by `status`, `provider` and `project`."""


class SearchRequest(_Request, kw_only=True, tag="search"):
    """Searches the text of all events: messages, reasoning, calls, and the beginning of outputs. Hits come newest
    first, by when their events happened."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    """Words and `"quoted phrases"`; an event has to have all of them. The last word may be the beginning of one."""
    session: Values | None = None
    provider: Values | None = None
    """Agents."""
    project: Values | None = None
    """Directories of the sessions, parents of these directories, or the last part of their names."""
    status: tuple[SessionStatus, ...] | None = None
    """Of the sessions."""
    kind: Values | None = None
    tool: Values | None = None
    """The canonical or the raw name of the tool."""
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


class UsageRequest(_Request, kw_only=True, tag="usage"):
    """Asks for sums of tokens and costs, grouped `by` one property. A session counts if it has one of the values of
    each filter that is given. Days are in UTC."""

    by: UsageKey = "day"
    """`agent` is the provider; a `subagent` is named with its session, as `<session>/<subagent>`."""
    session: Values | None = None
    provider: Values | None = None
    project: Values | None = None
    since: Seq | None = None
    """From the day on which this was, in milliseconds since the epoch."""
    until: Seq | None = None
    """Until the day before this was."""


class EventRequest(_Request, kw_only=True, tag="event"):
    """Asks for one event."""

    seq: Seq
    view: Literal["assistant", "display", "raw"] = "raw"
    """`assistant`: what the model saw; `display`: what the user sees; `raw`: the event as it is in the journal."""


class FilesRequest(_Request, kw_only=True, tag="files"):
    """Asks what a session changed: its files, or the diff of one."""

    session: Name
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    """Path of the file, as in the list or absolute; for a renamed file, the old path works too."""


class CallsRequest(_Request, kw_only=True, tag="calls"):
    """Lists open calls and pending permissions."""

    session: Name | None = None


class OutputRequest(_Request, kw_only=True, tag="output"):
    """Asks for a part of an output body."""

    output_id: Name
    offset: Count = 0
    """Where the part starts, in `unit`."""
    length: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 2**20
    """In `unit`; a reply has at most 1 MiB, however much is requested."""
    unit: Literal["bytes", "lines"] = "bytes"


class StoreRequest(_Request, kw_only=True, tag="store"):
    """Stores a body for a limited time: the `bytes` bytes that follow the frame's newline. Returns its `outputId`."""

    bytes: Count
    mime_type: Name
    type: Name
    """The kind of body: `file`, `command`, `image`, …"""
    path: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None
    language: Name | None = None
    """The language for highlighting, as Pygments names it: `python`, `json`."""


class StatsRequest(_Request, kw_only=True, tag="stats"):
    """Asks for the daemon's statistics."""


class EndRequest(_Request, kw_only=True, tag="end"):
    """Ends a stream: open calls are closed as interrupted. Returns its statistics."""

    stream: StreamId


class ToAgentRequest(_Request, kw_only=True, tag="to-agent"):
    """Sends something to the agent of a stream, over the connection of the stream's publisher. Experimental: every tap
    of this version refuses it."""

    stream: StreamId
    payload: Any
    """Any JSON value. The daemon does not read it."""


class RemoveRequest(_Request, kw_only=True, tag="remove"):
    """Deletes an ended session: its events and their bodies. Returns the number of events."""

    session: Name


class PingRequest(_Request, kw_only=True, tag="ping"):
    """Asks whether the daemon answers."""


Request: TypeAlias = (
    SessionsRequest
    | SearchRequest
    | UsageRequest
    | EventRequest
    | FilesRequest
    | CallsRequest
    | OutputRequest
    | StatsRequest
    | EndRequest
    | ToAgentRequest
    | RemoveRequest
    | PingRequest
)
