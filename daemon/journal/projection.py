"""What a journal derives from events as they are committed: open calls, pending permissions, one row per session.

The rules are here; where the rows are stored is each journal's business (`Projection` has a method for each access).
Events of replayed history are not projected.

`SessionRow` is what is stored of a session; `describe` makes the protocol's `Session` of it. Rows of older versions are
decoded too, so a new field needs a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tooltap.daemon.journal.interface import StreamState
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.replies import Session

__all__ = ["CALL", "PERMISSION", "CallRow", "Projection", "SessionRow"]

CALL = "call"
PERMISSION = "permission"
SCOPES = ("session", "turn", "step")
"""In order of preference: a session's total comes from one scope only."""
UNENDED: tuple[StreamState, ...] = ("open", "suspended")
DESCRIPTION = ("agent_version", "model", "title", "cwd")


class CallRow(msgspec.Struct, array_like=True):
    """A call or permission without a result or answer yet."""

    kind: str
    session: str
    seq: int
    data: dict[str, Any]


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

    def apply(self, stream: str, entries: Iterable[tuple[int, Produced]]) -> None:
        """Apply events of one stream, each with its `seq`."""
        name: str | None = None
        for seq, entry in entries:
            if entry.replay:
                continue
            if entry.session != name:
                name = entry.session
                new = SessionRow(provider=entry.provider, first_seq=seq, last_seq=seq)
                row = self._session(name, stream, new)
            row.provider = entry.provider
            row.ended = False
            row.last_seq = seq
            row.events += 1
            ts = entry.ts
            if ts is not None:
                if row.last_ts is None or ts > row.last_ts:
                    row.last_ts = ts
                if row.first_ts is None or ts < row.first_ts:
                    row.first_ts = ts
            if (rule := _RULES.get(entry.kind)) is not None:
                rule(self, stream, row, seq, entry)

    def end_stream(self, stream: str) -> None:
        """Drop the stream's open calls and permissions: it has ended."""
        for key in list(self._calls(stream)):
            self._put_call(stream, key, None)

    # -- where the rows are stored ------------------------------------------------------------------------------

    @abstractmethod
    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        """The stream's open calls and permissions, by `<kind>:<id>`."""

    @abstractmethod
    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        """Store a row, or delete it."""

    @abstractmethod
    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        """The session's row, `new` if there is none. It is about to change, and the stream has events of the
        session."""

    @abstractmethod
    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        """The stream has no events of session `alias` any more. Returns the alias's row, which is deleted; None if
        other streams have events of it, or none has."""

    # -- rules --------------------------------------------------------------------------------------------------

    def _open(self, stream: str, kind: str, row_id: str, seq: int, entry: Produced, data: dict[str, Any]) -> None:
        scope = {"ts": entry.ts, "turn": entry.turn, "agent": entry.agent, "parent": entry.parent}
        row = CallRow(kind, entry.session, seq, _known({**data, **scope}))
        self._put_call(stream, f"{kind}:{row_id}", row)

    def _close(self, stream: str, kind: str, row_id: str) -> None:
        key = f"{kind}:{row_id}"
        if key in self._calls(stream):
            self._put_call(stream, key, None)

    def _open_call(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        row.calls += 1
        call = entry.fields
        data = {
            "callId": call.call_id,
            "name": call.name,
            "rawToolName": entry.raw_tool,
            "status": call.status,
            "title": call.title,
            "preview": call.preview,
        }
        self._open(stream, CALL, call.call_id, seq, entry, data)

    def _update_call(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        update = entry.fields
        key = f"{CALL}:{update.call_id}"
        call = self._calls(stream).get(key)
        if call is None:
            return
        changes = {"name": update.name, "status": update.status, "title": update.title, "preview": update.preview}
        data = {**call.data, **_known(changes)}
        if data != call.data:
            self._put_call(stream, key, CallRow(call.kind, call.session, call.seq, data))

    def _close_call(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        if not entry.fields.async_:
            self._close(stream, CALL, entry.fields.call_id)

    def _ask(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        request = entry.fields
        data = {
            "permissionId": request.permission_id,
            "type": request.type,
            "callId": request.call_id,
            "name": request.name,
            "title": request.title,
            "options": request.options,
            "questions": request.questions,
        }
        self._open(stream, PERMISSION, request.permission_id, seq, entry, data)

    def _answer(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        self._close(stream, PERMISSION, entry.fields.permission_id)

    def _add_usage(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        usage = entry.fields
        tokens = row.usage.setdefault(usage.scope, Totals())
        cost_scope = usage.cost_scope or usage.scope
        costs = row.usage.setdefault(cost_scope, Totals())
        tokens.input_tokens = _figure(usage.scope, tokens.input_tokens, usage.input_tokens)
        tokens.output_tokens = _figure(usage.scope, tokens.output_tokens, usage.output_tokens)
        costs.cost_usd = _figure(cost_scope, costs.cost_usd, usage.cost_usd)

    def _update_session(self, stream: str, row: SessionRow, seq: int, entry: Produced) -> None:
        changed = entry.fields
        if entry.agent is None:
            row.ended = changed.state == "ended"
            for field in DESCRIPTION:
                value = getattr(changed, field)
                if value is not None:
                    setattr(row, field, value)
        alias = changed.alias
        if alias is not None and alias != entry.session:
            # Until its id was known, this stream's session went by another name.
            for key, call in list(self._calls(stream).items()):
                if call.session == alias:
                    self._put_call(stream, key, CallRow(call.kind, entry.session, call.seq, call.data))
            earlier = self._rename(alias, stream)
            if earlier is not None:
                row.absorb(earlier)


_RULES: dict[str, Callable[[Projection, str, SessionRow, int, Produced], None]] = {
    "tool-call": Projection._open_call,
    "tool-update": Projection._update_call,
    "tool-result": Projection._close_call,
    "permission-request": Projection._ask,
    "permission-response": Projection._answer,
    "usage": Projection._add_usage,
    "session": Projection._update_session,
}


def _figure(scope: str, before: Any, stated: Any) -> Any:
    """A session reports totals, so the latest counts; turns and steps are added up."""
    if stated is None or before is None or scope == "session":
        return before if stated is None else stated
    return before + stated


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
