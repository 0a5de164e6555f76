"""Results of requests: the `result` of a `Reply`, one struct for each `op`.

    sessions = msgspec.convert(await request("sessions"), RESULTS["sessions"]).sessions

Clients read them leniently, like all frames of the daemon: they ignore what a newer daemon adds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tooltap.protocol.events import CallStatus
from tooltap.protocol.stats import Statistics

__all__ = [
    "RESULTS",
    "CallsResult",
    "EventResult",
    "OpenCall",
    "OpenPermission",
    "OutputResult",
    "PingResult",
    "RemoveResult",
    "Session",
    "SessionsResult",
    "StoreResult",
]


class _Result(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """An absent key means that the value is not known."""


class Session(_Result, kw_only=True):
    """One session, as far as its events are in the journal."""

    session: str
    provider: str
    agent_version: str | None = None
    model: str | None = None
    title: str | None = None
    cwd: str | None = None
    state: Literal["open", "suspended", "ended"]
    """`suspended`: its publisher is disconnected and may return."""
    first_seq: int
    last_seq: int
    first_ts: int | None = None
    """Milliseconds since the epoch."""
    last_ts: int | None = None
    events: int
    """Without history that the agent sent again."""
    calls: int
    streams: list[str]
    """Ids of the streams that contain its events."""
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class SessionsResult(_Result, kw_only=True):
    """A page of sessions, newest first."""

    sessions: list[Session]
    next: int | None = None
    """Present if there may be more: pass it as `before` to get them."""


class EventResult(_Result, kw_only=True):
    """One event, in one view."""

    view: Literal["assistant", "display", "raw"]
    event: dict[str, Any]
    """The whole event in the view `raw`; the other views leave out what their reader does not see."""


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


class CallsResult(_Result, kw_only=True):
    """Open calls and pending permissions, oldest first."""

    calls: list[OpenCall]
    permissions: list[OpenPermission]
    complete: bool
    """False if there are more than fit into a reply."""


class OutputResult(_Result, kw_only=True):
    """A part of an output body: UTF-8 as `text`, anything else as `b64`."""

    text: str | None = None
    b64: str | None = None
    offset: int
    """Where the part starts, in `unit`."""
    length: int
    """In `unit`; less than requested if the reply is full or the body ends."""
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


class PingResult(_Result, kw_only=True):
    """The daemon answers."""


RESULTS: dict[str, type[msgspec.Struct]] = {
    "sessions": SessionsResult,
    "event": EventResult,
    "calls": CallsResult,
    "output": OutputResult,
    "end": Statistics,
    "remove": RemoveResult,
    "store": StoreResult,
    "ping": PingResult,
}
"""`op` -> its result. The result of `stats` is an open object, for people and for monitoring."""
