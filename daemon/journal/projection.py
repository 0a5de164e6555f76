"""What a journal derives from events as they are committed: open calls, pending permissions, one row per session.

The rules are here; where the rows are stored is each journal's business (`Projection` has a method for each access).
Events of replayed history are not projected.

`SessionRow` is what is stored of a session; `describe` makes the protocol's `Session` of it. Rows of older versions are
decoded too, so a new field needs a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec

from tooltap.daemon.journal.interface import StreamState
from tooltap.protocol.events import (
    Event,
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Usage,
)
from tooltap.protocol.replies import Session

__all__ = ["CALL", "PERMISSION", "Projection", "SessionRow"]

CALL = "call"
PERMISSION = "permission"
SCOPES = ("session", "turn", "step")
"""In order of preference: a session's total comes from one scope only."""
UNENDED: tuple[StreamState, ...] = ("open", "suspended")
DESCRIPTION = ("agent_version", "model", "title", "cwd")


class Totals(msgspec.Struct, omit_defaults=True):
    """Usage as one scope reports it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, later: Totals | None, scope: str) -> Totals:
        if later is None:
            return self
        return Totals(
            *(_figure(scope, getattr(self, field), getattr(later, field)) for field in self.__struct_fields__)
        )


class SessionRow(msgspec.Struct, omit_defaults=True, kw_only=True):
    provider: str
    first_seq: int
    last_seq: int
    first_ts: int | None = None
    last_ts: int | None = None
    events: int = 0
    calls: int = 0
    ended: bool = False
    """The provider reported the end, and no event has followed."""
    agent_version: str | None = None
    model: str | None = None
    title: str | None = None
    cwd: str | None = None
    usage: dict[str, Totals] = {}
    """Scope -> the latest figure (session) or the sum (turn, step)."""

    def total(self, field: str) -> Any:
        """From the first scope that reports it. Input and output tokens always come from the same scope."""
        wanted = ("input_tokens", "output_tokens") if field.endswith("tokens") else (field,)
        for scope in SCOPES:
            totals = self.usage.get(scope)
            if totals is not None and any(getattr(totals, name) is not None for name in wanted):
                return getattr(totals, field)
        return None

    def describe(self, name: str, streams: Mapping[str, StreamState]) -> dict[str, Any]:
        """The session as in a `sessions` reply; `streams`: the state of each stream it is in."""
        states = set(streams.values())
        session = Session(
            session=name,
            provider=self.provider,
            agent_version=self.agent_version,
            model=self.model,
            title=self.title,
            cwd=self.cwd,
            state=next((one for one in UNENDED if one in states and not self.ended), "ended"),
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            first_ts=self.first_ts,
            last_ts=self.last_ts,
            events=self.events,
            calls=self.calls,
            streams=sorted(streams),
            cost_usd=self.total("cost_usd"),
            input_tokens=self.total("input_tokens"),
            output_tokens=self.total("output_tokens"),
        )
        described: dict[str, Any] = msgspec.to_builtins(session)
        return described

    def touch(self, seq: int, event: Event) -> None:
        """Count the event."""
        self.provider = event.provider
        self.ended = False
        self.last_seq = seq
        self.events += 1
        self._add_stamps(event.ts, event.ts)

    def absorb(self, earlier: SessionRow) -> None:
        """Add an earlier row of the same session."""
        self.first_seq = min(self.first_seq, earlier.first_seq)
        self.events += earlier.events
        self.calls += earlier.calls
        self._add_stamps(earlier.first_ts, earlier.last_ts)
        for field in DESCRIPTION:
            if getattr(self, field) is None:
                setattr(self, field, getattr(earlier, field))
        for scope, totals in earlier.usage.items():
            self.usage[scope] = totals.plus(self.usage.get(scope), scope)

    def _add_stamps(self, first: int | None, last: int | None) -> None:
        if first is not None:
            self.first_ts = first if self.first_ts is None else min(self.first_ts, first)
        if last is not None:
            self.last_ts = last if self.last_ts is None else max(self.last_ts, last)


class Projection(ABC):
    """Applies events to the derived rows."""

    def apply(self, seq: int, event: Event) -> None:
        if event.replay:
            return
        row = self._session(seq, event)
        if isinstance(event, ToolCall):
            row.calls += 1
            self._open(CALL, event.call_id, seq, event, _call_data(event))
        elif isinstance(event, ToolUpdate):
            self._update_call(event)
        elif isinstance(event, ToolResult):
            if not event.async_:
                self._close(CALL, event.call_id, event)
        elif isinstance(event, PermissionRequest):
            self._open(PERMISSION, event.permission_id, seq, event, _permission_data(event))
        elif isinstance(event, PermissionResponse):
            self._close(PERMISSION, event.permission_id, event)
        elif isinstance(event, Usage):
            _add_usage(row, event)
        elif isinstance(event, SessionEvent):
            self._update_session(row, event)

    # -- where the rows are stored ------------------------------------------------------------------------------

    @abstractmethod
    def end_stream(self, stream: str) -> None:
        """Drop the stream's open calls and permissions: it has ended."""

    @abstractmethod
    def _open(self, kind: str, row_id: str, seq: int, event: Event, data: dict[str, Any]) -> None: ...

    @abstractmethod
    def _close(self, kind: str, row_id: str, event: Event) -> None: ...

    @abstractmethod
    def _call(self, event: ToolUpdate) -> dict[str, Any] | None:
        """The data of the open call that the event updates."""

    @abstractmethod
    def _change_call(self, event: ToolUpdate, data: dict[str, Any]) -> None: ...

    @abstractmethod
    def _load(self, name: str) -> SessionRow | None: ...

    @abstractmethod
    def _store(self, name: str, row: SessionRow, stream: str) -> None:
        """Store the row, which is new or about to change; the stream has events of the session."""

    @abstractmethod
    def _rename(self, alias: str, name: str, stream: str) -> SessionRow | None:
        """Move what the stream has of session `alias` to `name`. Returns the alias's row, which is deleted; None if
        other streams have events of the alias."""

    # -- rules --------------------------------------------------------------------------------------------------

    def _update_call(self, event: ToolUpdate) -> None:
        data = self._call(event)
        if data is None:
            return
        changes = {"name": event.name, "status": event.status, "title": event.title, "preview": event.preview}
        changed = {**data, **known(changes)}
        if changed != data:
            self._change_call(event, changed)

    def _session(self, seq: int, event: Event) -> SessionRow:
        """The row of the event's session, with this event counted."""
        name = event.session
        row = self._load(name) or SessionRow(provider=event.provider, first_seq=seq, last_seq=seq)
        row.touch(seq, event)
        self._store(name, row, event.stream)
        return row

    def _update_session(self, row: SessionRow, event: SessionEvent) -> None:
        if event.agent is None:
            row.ended = event.state == "ended"
            for field in DESCRIPTION:
                value = getattr(event, field)
                if value is not None:
                    setattr(row, field, value)
        if event.alias is not None and event.alias != event.session:
            # Until its id was known, this stream's session went by another name.
            earlier = self._rename(event.alias, event.session, event.stream)
            if earlier is not None:
                row.absorb(earlier)


def _add_usage(row: SessionRow, event: Usage) -> None:
    tokens = row.usage.setdefault(event.scope, Totals())
    cost_scope = event.cost_scope or event.scope
    costs = row.usage.setdefault(cost_scope, Totals())
    tokens.input_tokens = _figure(event.scope, tokens.input_tokens, event.input_tokens)
    tokens.output_tokens = _figure(event.scope, tokens.output_tokens, event.output_tokens)
    costs.cost_usd = _figure(cost_scope, costs.cost_usd, event.cost_usd)


def _figure(scope: str, before: Any, stated: Any) -> Any:
    """A session reports totals, so the latest counts; turns and steps are added up."""
    if stated is None or before is None or scope == "session":
        return before if stated is None else stated
    return before + stated


def _call_data(event: ToolCall) -> dict[str, Any]:
    return known(
        {
            "callId": event.call_id,
            "name": event.name,
            "rawToolName": event.input.get("_happy", {}).get("rawToolName"),
            "status": event.status,
            "title": event.title,
            "preview": event.preview,
            **_scope(event),
        }
    )


def _permission_data(event: PermissionRequest) -> dict[str, Any]:
    return known(
        {
            "permissionId": event.permission_id,
            "type": event.type,
            "callId": event.call_id,
            "name": event.name,
            "title": event.title,
            "options": event.options,
            "questions": event.questions,
            **_scope(event),
        }
    )


def _scope(event: Event) -> dict[str, Any]:
    return {"ts": event.ts, "turn": event.turn, "agent": event.agent, "parent": event.parent}


def known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
