"""The outline of a session: an entry for each turn, with what it did and cost, and for each of its subagents."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal, NamedTuple, TypeAlias

from tooltap.daemon.formats import counted, dollars, spent
from tooltap.daemon.sessions.turn_costs import cost_of
from tooltap.daemon.sessions.usage import Cost
from tooltap.daemon.web.page.overview.history import Agent, History, Share, Turn

__all__ = ["SHOWN", "Entry", "State", "SubEntry", "outline_of"]

SHOWN = 300
"""Most turns that are listed, the latest."""
SUBAGENTS = 12
"""Most subagents that are listed of one turn."""
State: TypeAlias = Literal["running", "waiting", "failed", "cancelled", ""]


class SubEntry(NamedTuple):
    seq: int
    title: str
    facts: list[str]


class Entry(NamedTuple):
    seq: int
    number: int
    """0: what came before the first turn."""
    prompt: str
    """Its beginning; empty if the stream does not have it."""
    answer: str
    """Its beginning."""
    state: State
    calls: int
    errors: int
    duration: int | None
    """Milliseconds."""
    cost: Cost | None
    facts: list[str]
    """What it did and cost, in words."""
    subagents: list[SubEntry]
    more_subagents: int


def outline_of(history: History, *, is_live: bool) -> list[Entry]:
    """`is_live`: the session is running."""
    agents: defaultdict[int, list[Agent]] = defaultdict(list)
    for agent in history.agents.values():
        agents[history.turn_of(agent)].append(agent)
    waiting = is_live and any(wait.end is None for wait in history.waits)
    entries = []
    for turn in history.turns[-SHOWN:]:
        own = sorted(agents[turn.number], key=lambda agent: agent.seq)
        if turn.number or turn.share.calls or own:
            entries.append(_entry(history, turn, own, is_live, waiting and turn is history.turns[-1]))
    return entries


def _entry(history: History, turn: Turn, agents: list[Agent], is_live: bool, is_waiting: bool) -> Entry:
    shares = [turn.share, *(agent.share for agent in agents)]
    calls, errors = sum(share.calls for share in shares), sum(share.errors for share in shares)
    cost = cost_of([share.spent for share in shares])
    duration = _duration(history, turn)
    return Entry(
        seq=turn.seq,
        number=turn.number,
        prompt=turn.prompt,
        answer=turn.answer,
        state=_state(turn, is_live, is_waiting),
        calls=calls,
        errors=errors,
        duration=duration,
        cost=cost,
        facts=_facts(calls, errors, duration, cost),
        subagents=[_sub_entry(history, agent) for agent in agents[:SUBAGENTS]],
        more_subagents=max(len(agents) - SUBAGENTS, 0),
    )


def _sub_entry(history: History, agent: Agent) -> SubEntry:
    share: Share = agent.share
    facts = _facts(share.calls, share.errors, max(agent.end - agent.start, 0) or None, cost_of([share.spent]))
    return SubEntry(agent.seq, history.title_of(agent), facts)


def _state(turn: Turn, is_live: bool, is_waiting: bool) -> State:
    if is_waiting:
        return "waiting"
    if turn.state == "started":
        return "running" if is_live else "cancelled"
    return turn.state if turn.state in ("failed", "cancelled") else ""  # type: ignore[return-value]


def _duration(history: History, turn: Turn) -> int | None:
    if turn.duration is not None:
        return turn.duration
    end = history.last if turn.end is None else turn.end
    return None if end is None or history.first is None else max(end - turn.start, 0)


def _facts(calls: int, errors: int, duration: int | None, cost: Cost | None) -> list[str]:
    facts = [
        counted(calls, "call") if calls else None,
        counted(errors, "error") if errors else None,
        spent(duration) if duration else None,
        None if cost is None or not cost.usd else f"{'about ' if cost.estimated else ''}{dollars(cost.usd) or ''}",
    ]
    return [fact for fact in facts if fact]
