"""Results of requests: what `result` of a `Reply` holds, one struct for each `op`.

    sessions = msgspec.convert(await request("sessions"), RESULTS["sessions"]).sessions

They are read leniently, as all frames of the daemon: what a newer one adds is ignored.
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
    """Absent keys are not known."""


class Session(_Result, kw_only=True):
    """One session, as far as the journal has its events."""

    session: str
    provider: str
    agent_version: str | None = None
    model: str | None = None
    title: str | None = None
    cwd: str | None = None
    state: Literal["open", "suspended", "ended"]
    """`suspended`: its publisher is gone and may come back."""
    first_seq: int
    last_seq: int
    first_ts: int | None = None
    """Milliseconds since the epoch."""
    last_ts: int | None = None
    events: int
    """History that an agent sent again is not counted."""
    calls: int
    streams: list[str]
    """Ids of the streams that have events of it."""
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class SessionsResult(_Result, kw_only=True):
    """Newest first."""

    sessions: list[Session]
    next: int | None = None
    """There may be more: ask for them with this as `before`."""


class EventResult(_Result, kw_only=True):
    view: Literal["assistant", "display", "raw"]
    event: dict[str, Any]
    """`raw`: the whole event. The other views leave out what their audience does not see."""


class _Open(_Result, kw_only=True):
    stream: str
    session: str
    seq: int
    """Of the event that opened it."""
    call_id: str | None = None
    name: str | None = None
    """Canonical tool name, or the provider's name unchanged."""
    title: str | None = None
    ts: int | None = None
    turn: str | None = None
    agent: str | None = None
    parent: str | None = None


class OpenCall(_Open, kw_only=True):
    """A call without a result yet."""

    raw_tool_name: str | None = None
    status: CallStatus
    preview: str | None = None


class OpenPermission(_Open, kw_only=True):
    """A permission request without an answer yet."""

    permission_id: str
    type: Literal["permission", "question", "elicitation"]
    options: list[dict[str, Any]] | None = None
    """`{id, name, kind}` each."""
    questions: list[dict[str, Any]] | None = None


class CallsResult(_Result, kw_only=True):
    calls: list[OpenCall]
    permissions: list[OpenPermission]
    complete: bool
    """False where there are more than fit into a reply; the oldest come first."""


class OutputResult(_Result, kw_only=True):
    """A slice of a body: UTF-8 as `text`, anything else as `b64`."""

    text: str | None = None
    b64: str | None = None
    offset: int
    """In `unit`."""
    length: int
    """In `unit`; less than was asked for where a reply is full, or the body ends."""
    total: int
    """Of the whole body, in `unit`."""
    unit: Literal["bytes", "lines"]
    mime_type: str
    type: str | None = None
    """Of a display tool's output, like `path` and `language`: `file`, `command`, `image`, …"""
    path: str | None = None
    language: str | None = None
    """For highlighting, a name as Pygments has it."""


class StoreResult(_Result, kw_only=True):
    output_id: str


class RemoveResult(_Result, kw_only=True):
    events: int
    """So many have been deleted."""


class PingResult(_Result, kw_only=True):
    pass


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
"""`op` -> what its result holds. That of `stats` is an open object, for people and for monitoring."""
