"""One session as the journals store it: `SessionRow`, which `Projection` keeps up to date.

A question that takes more than one value to answer has a part of its own (`PARTS`), in a module that knows no row: its
state, `note` for each event of its `KINDS`, and `absorb`, which adds the part of an earlier row of the same session.

`describe` makes the protocol's `Session` of it. Rows of older versions are decoded too, so a new field needs a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import msgspec

from tooltap.daemon.journal.prices import known_prices
from tooltap.daemon.journal.session_activity import Activity
from tooltap.daemon.journal.session_changes import Changes
from tooltap.daemon.journal.session_cost import Cost, PricedPart, Spending, priced, total_cost
from tooltap.daemon.journal.session_title import Prompt
from tooltap.daemon.journal.session_usage import NAME, SessionUsage, is_cost
from tooltap.daemon.journal.session_work import Work
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Usage
from tooltap.protocol.replies import Session, SessionStatus, StreamState

__all__ = ["DESCRIPTION", "PARTS", "SessionRow"]

SCOPES = ("session", "turn", "step")
"""In order of preference: a session's total comes from one scope only."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
UNENDED: tuple[StreamState, ...] = ("open", "suspended")
DESCRIPTION = ("agent_version", "model", "title", "cwd", "branch")
"""Columns that repeat the latest value of a `session` event."""
MAX_MODELS = 16


class Totals(msgspec.Struct, omit_defaults=True):
    """Usage as one scope reports it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, later: Totals | None, scope: str) -> Totals:
        if later is None:
            return self
        return Totals(*(figure(scope, getattr(self, field), getattr(later, field)) for field in self.__struct_fields__))


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
    branch: str | None = None
    home: str | None = None
    """The first `cwd` …"""
    root: str | None = None
    """… and the folder of its repository."""
    models: list[str] = []
    """In the order in which they were first used."""
    usage: dict[str, Totals] = {}
    """Scope -> the latest figure (session) or the sum (turn, step). Each subagent has its own total of the session,
    under `session/<agent>`."""
    prompt: Prompt = msgspec.field(default_factory=Prompt)
    work: Work = msgspec.field(default_factory=Work)
    activity: Activity = msgspec.field(default_factory=Activity)
    changes: Changes = msgspec.field(default_factory=Changes)
    used: SessionUsage = msgspec.field(default_factory=SessionUsage)

    def note(self, seq: int, entry: Produced) -> None:
        """Add what every event tells, and what the parts keep of it."""
        self.provider = entry.provider
        self.ended = False
        self.last_seq = seq
        self.events += 1
        # What the end of a stream leads to happened when the stream's last event did, not when its end was noticed.
        ts = self.last_ts if _is_of_end(entry) else entry.ts
        self._add_stamps(ts, ts)
        for part in _PARTS_OF.get(entry.kind, ()):
            getattr(self, part).note(seq, ts, entry)

    @property
    def project(self) -> str | None:
        return self.root or self.home or self.cwd

    @property
    def outcome(self) -> SessionStatus:
        """As in `Work`."""
        return self.work.outcome(ended=self.ended)

    def use_model(self, model: str) -> None:
        if model not in self.models and len(self.models) < MAX_MODELS:
            self.models.append(model)

    def add_usage(self, usage: Usage, agent: str | None) -> None:
        """Add a `usage` event. `agent`: the subagent's id."""
        scope = _of_agent(usage.scope, agent)
        tokens = self.usage.setdefault(scope, Totals())
        for field in TOKENS:
            setattr(tokens, field, figure(scope, getattr(tokens, field), getattr(usage, field)))
        if is_cost(usage.cost_usd):
            scope = _of_agent(usage.cost_scope or usage.scope, agent)
            costs = self.usage.setdefault(scope, Totals())
            costs.cost_usd = figure(scope, costs.cost_usd, usage.cost_usd)

    def costs(self) -> list[PricedPart]:
        """What its parts cost, by the prices that are installed. It may take a second: call it in a thread."""
        own = self.total("cost_usd")
        return priced(self.used, own if is_cost(own) else None)

    def spending(self, name: str) -> Spending:
        title = self.title or self.prompt.title or None
        return Spending(name, self.provider, self.project, title, self.costs())

    def total(self, field: str) -> Any:
        """From the first scope that reports it. Input and output tokens always come from the same scope."""
        wanted = ("input_tokens", "output_tokens") if field.endswith("tokens") else (field,)
        for scope in SCOPES:
            stated = [totals for name, totals in self.usage.items() if name.split("/")[0] == scope]
            if any(getattr(totals, name) is not None for totals in stated for name in wanted):
                return _sum_of(getattr(totals, field) for totals in stated)
        return None

    def describe(self, name: str, streams: Mapping[str, StreamState], *, pending: bool) -> dict[str, Any]:
        """The session as in a `sessions` reply; `streams`: the state of each stream it is in; `pending`: whether a
        permission request has no response."""
        states = set(streams.values())
        activity: list[dict[str, int]] = []
        width = 0
        if self.first_ts is not None and self.last_ts is not None:
            activity, width = self.activity.over(self.first_ts, self.last_ts)
        own = self.total("cost_usd")
        cost = Cost(own, False) if is_cost(own) else total_cost(self.costs())
        prices = known_prices() if cost is not None and cost.estimated else None
        session = Session(
            session=name,
            provider=self.provider,
            agent_version=self.agent_version,
            model=self.model,
            models=self.models or None,
            title=self.title or self.prompt.title or None,
            cwd=self.cwd,
            project=self.project,
            branch=self.branch,
            state=next((one for one in UNENDED if one in states and not self.ended), "ended"),
            status=self.work.status(ended=self.ended, is_open="open" in states, pending=pending),
            turn=self.work.turn,
            turns=self.work.turns,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            first_ts=self.first_ts,
            last_ts=self.last_ts,
            events=self.events,
            calls=self.calls,
            families=self.activity.families or None,
            activity=activity or None,
            activity_ms=width if activity else None,
            errors=self.work.errors,
            files=len(self.changes.files),
            lines_added=self.changes.added,
            lines_removed=self.changes.removed,
            duration_ms=self.work.duration(self.first_ts, self.last_ts),
            streams=sorted(streams),
            cost_usd=None if cost is None else cost.usd,
            cost_estimated=True if cost is not None and cost.estimated else None,
            cost_model=None if cost is None else cost.matched,
            prices_date=None if prices is None else prices.date,
            context_used=self.used.context_used,
            context_size=self.used.context_size,
            **{field: self.total(field) for field in TOKENS},
        )
        described: dict[str, Any] = msgspec.to_builtins(session)
        return described

    def complete(self, other: SessionRow) -> None:
        """Take what this row, of an earlier version, says nothing of from one of the same session that was made of the
        events that are left."""
        for field in msgspec.structs.fields(self):
            empty = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if getattr(self, field.name) == empty:
                setattr(self, field.name, getattr(other, field.name))

    def absorb(self, earlier: SessionRow) -> None:
        """Add an earlier row of the same session."""
        if earlier.first_seq < self.first_seq:
            self.first_seq = earlier.first_seq
            if earlier.home is not None:
                self.home, self.root = earlier.home, earlier.root
            self.models = [*earlier.models, *(one for one in self.models if one not in earlier.models)][:MAX_MODELS]
        else:
            if self.home is None:
                self.home, self.root = earlier.home, earlier.root
            for model in earlier.models:
                self.use_model(model)
        self.events += earlier.events
        self.calls += earlier.calls
        self._add_stamps(earlier.first_ts, earlier.last_ts)
        for part in PARTS:
            getattr(self, part).absorb(getattr(earlier, part))
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


def _is_of_end(entry: Produced) -> bool:
    """Whether an event follows from the end of its stream; its id says so."""
    return entry.id.rpartition(":")[0].endswith("c")


PARTS = ("prompt", "work", "activity", "used", "changes")
_PARTS_OF: dict[str, list[str]] = {}
for _part in PARTS:
    for _kind in get_type_hints(SessionRow)[_part].KINDS:
        _PARTS_OF.setdefault(_kind, []).append(_part)


def figure(scope: str, before: Any, stated: Any) -> Any:
    """A session reports totals, so the latest counts; turns and steps are added up."""
    if stated is None or before is None or scope.startswith("session"):
        return before if stated is None else stated
    return before + stated


def _sum_of(figures: Iterable[Any]) -> Any:
    known = [one for one in figures if one is not None]
    return sum(known) if known else None


def _of_agent(scope: str, agent: str | None) -> str:
    """Totals of the session are those of one agent."""
    return scope if agent is None or scope != "session" else f"{scope}/{agent[:NAME]}"
