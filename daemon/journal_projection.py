"""What the journal derives from events as they are committed: open calls, pending permissions, one row per session.

Runs in the writer's transaction, so that these rows are never ahead of or behind the events. Replayed history is not
projected.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import Any

import msgspec

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

__all__ = ["CALL", "PERMISSION", "Projection", "SessionRow"]

CALL = "call"
PERMISSION = "permission"
SESSIONS_IN_MEMORY = 1_000
SCOPES = ("session", "turn", "step")
"""In order of preference: a session's total is taken from one scope alone."""
DESCRIPTION = ("agent_version", "model", "title", "cwd")


class Totals(msgspec.Struct, omit_defaults=True):
    """Usage as far as one scope states it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class SessionRow(msgspec.Struct, omit_defaults=True, kw_only=True):
    provider: str
    first_seq: int
    last_seq: int
    first_ts: int | None = None
    last_ts: int | None = None
    events: int = 0
    calls: int = 0
    ended: bool = False
    """The provider said so, and nothing has come since."""
    agent_version: str | None = None
    model: str | None = None
    title: str | None = None
    cwd: str | None = None
    usage: dict[str, Totals] = {}
    """Scope -> the latest figure (session) or the sum (turn, step)."""

    def total(self, field: str) -> Any:
        """From the first scope that states it; input and output tokens always come from the same one."""
        wanted = ("input_tokens", "output_tokens") if field.endswith("tokens") else (field,)
        for scope in SCOPES:
            totals = self.usage.get(scope)
            if totals is not None and any(getattr(totals, name) is not None for name in wanted):
                return getattr(totals, field)
        return None


class Projection:
    """Applies events to the derived rows; `flush` writes what it kept in memory, `reset` forgets it (a rollback)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sessions: OrderedDict[str, SessionRow] = OrderedDict()
        self._changed: set[str] = set()
        self._linked: set[tuple[str, str]] = set()

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

    def end_stream(self, stream: str) -> None:
        """Nothing of an ended stream is open."""
        self._connection.execute("DELETE FROM calls WHERE stream=?", (stream,))

    def flush(self) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)",
            [(name, (row := self._sessions[name]).last_seq, msgspec.json.encode(row)) for name in self._changed],
        )
        self._changed.clear()
        while len(self._sessions) > SESSIONS_IN_MEMORY:
            self._sessions.popitem(last=False)
        if len(self._linked) > SESSIONS_IN_MEMORY:
            self._linked.clear()

    def reset(self) -> None:
        self._sessions.clear()
        self._changed.clear()
        self._linked.clear()

    # -- calls and permissions ----------------------------------------------------------------------------------

    def _open(self, kind: str, row_id: str, seq: int, event: Event, data: dict[str, Any]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?)",
            (event.stream, kind, row_id, event.session, seq, msgspec.json.encode(data)),
        )

    def _close(self, kind: str, row_id: str, event: Event) -> None:
        self._connection.execute("DELETE FROM calls WHERE stream=? AND kind=? AND id=?", (event.stream, kind, row_id))

    def _update_call(self, event: ToolUpdate) -> None:
        key = (event.stream, CALL, event.call_id)
        found = self._connection.execute("SELECT data FROM calls WHERE stream=? AND kind=? AND id=?", key).fetchone()
        if found is None:
            return
        data = msgspec.json.decode(found[0])
        changes = {"name": event.name, "status": event.status, "title": event.title, "preview": event.preview}
        changed = {**data, **_known(changes)}
        if changed != data:
            self._connection.execute(
                "UPDATE calls SET data=? WHERE stream=? AND kind=? AND id=?", (msgspec.json.encode(changed), *key)
            )

    # -- sessions -----------------------------------------------------------------------------------------------

    def _session(self, seq: int, event: Event) -> SessionRow:
        """The row of the event's session, brought up to this event."""
        name = event.session
        row = self._load(name)
        if row is None:
            row = self._sessions[name] = SessionRow(provider=event.provider, first_seq=seq, last_seq=seq)
        self._sessions.move_to_end(name)
        self._changed.add(name)
        row.provider = event.provider
        row.ended = False
        row.last_seq = seq
        row.events += 1
        if event.ts is not None:
            row.first_ts = event.ts if row.first_ts is None else min(row.first_ts, event.ts)
            row.last_ts = event.ts if row.last_ts is None else max(row.last_ts, event.ts)
        link = (name, event.stream)
        if link not in self._linked:
            self._linked.add(link)
            self._connection.execute("INSERT OR IGNORE INTO session_streams VALUES (?, ?)", link)
        return row

    def _load(self, name: str) -> SessionRow | None:
        row = self._sessions.get(name)
        if row is None:
            found = self._connection.execute("SELECT data FROM sessions WHERE session=?", (name,)).fetchone()
            if found is not None:
                row = self._sessions[name] = msgspec.json.decode(found[0], type=SessionRow)
        return row

    def _update_session(self, row: SessionRow, event: SessionEvent) -> None:
        if event.agent is None:
            row.ended = event.state == "ended"
            for field in DESCRIPTION:
                value = getattr(event, field)
                if value is not None:
                    setattr(row, field, value)
        if event.alias is not None and event.alias != event.session:
            self._merge(event.alias, event.session, event.stream, row)

    def _merge(self, alias: str, name: str, stream: str, row: SessionRow) -> None:
        """This stream's session was known by another name until its id came. A row that other streams share stays."""
        execute = self._connection.execute
        execute("UPDATE calls SET session=? WHERE session=? AND stream=?", (name, alias, stream))
        earlier = self._load(alias)
        if earlier is None:
            return
        self._linked.discard((alias, stream))
        execute("DELETE FROM session_streams WHERE session=? AND stream=?", (alias, stream))
        if execute("SELECT 1 FROM session_streams WHERE session=?", (alias,)).fetchone():
            return
        row.first_seq = min(row.first_seq, earlier.first_seq)
        row.events += earlier.events
        row.calls += earlier.calls
        stamps = [one for one in (earlier.first_ts, row.first_ts) if one is not None]
        row.first_ts = min(stamps) if stamps else None
        for field in DESCRIPTION:
            if getattr(row, field) is None:
                setattr(row, field, getattr(earlier, field))
        for scope, totals in earlier.usage.items():
            row.usage.setdefault(scope, totals)
        del self._sessions[alias]
        self._changed.discard(alias)
        execute("DELETE FROM sessions WHERE session=?", (alias,))


def _add_usage(row: SessionRow, event: Usage) -> None:
    tokens = row.usage.setdefault(event.scope, Totals())
    cost_scope = event.cost_scope or event.scope
    costs = row.usage.setdefault(cost_scope, Totals())
    tokens.input_tokens = _figure(event.scope, tokens.input_tokens, event.input_tokens)
    tokens.output_tokens = _figure(event.scope, tokens.output_tokens, event.output_tokens)
    costs.cost_usd = _figure(cost_scope, costs.cost_usd, event.cost_usd)


def _figure(scope: str, before: Any, stated: Any) -> Any:
    """The latest figure of a session, the sum of turns or steps."""
    if stated is None or before is None or scope == "session":
        return before if stated is None else stated
    return before + stated


def _call_data(event: ToolCall) -> dict[str, Any]:
    return _known(
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
    return _known(
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


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
