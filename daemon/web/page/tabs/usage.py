"""The tab *Usage*: the context as a curve, tokens, costs by model and by agent, and a row for each turn.

Costs are those that the journal has of the session (`Journal.usage`); a turn has its share of them. A cost that
the agent does not state is an estimate, and is called `about`; one that nobody knows is `not known`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.turn_costs import cost_of
from tooltap.daemon.sessions.usage import Cost
from tooltap.daemon.web.page.tabs.curve import curve_of
from tooltap.daemon.web.page.tabs.places import Place
from tooltap.daemon.web.page.tabs.spending import Spending, SpentTurn
from tooltap.protocol.replies import UsageResult, UsageRow
from tooltap.protocol.requests import UsageRequest

__all__ = ["Costs", "costs_of", "usage_values"]

ROWS = 50
"""Models, and agents, in a table."""
NARROW_TURNS, WIDE_TURNS = 50, 500
NARROW_CURVE, WIDE_CURVE = (318, 84), (960, 180)
"""Width and height. A page has both: a phone shows the first, and other screens the second."""
LISTED = 20
"""Compactions in the list; the latest ones."""


class Costs(NamedTuple):
    by_model: UsageResult
    by_agent: UsageResult


class Share(NamedTuple):
    """What one model, or one agent, had."""

    name: str
    agent: str | None
    """The id of a subagent."""
    row: UsageRow


class TurnRow(NamedTuple):
    place: Place
    state: str
    milliseconds: int | None
    calls: int
    input: int
    cached: int
    output: int
    is_counted: bool
    """The agent has reported tokens or a cost of it."""
    cost: Cost | None
    context_used: int | None
    context_size: int | None


async def costs_of(journal: Journal, session: str) -> Costs:
    """Raises `JournalError`."""
    by_model = await journal.usage(UsageRequest(id=None, by="model", session=(session,)))
    return Costs(by_model, await journal.usage(UsageRequest(id=None, by="subagent", session=(session,))))


def usage_values(known: Spending, costs: Costs, row: dict[str, Any], *, wide: bool) -> dict[str, Any]:
    """Return the values for the template. The prices may have to be loaded first: call it in a thread. `row`: of the
    session."""
    turns = [turn for turn in known.turns if turn.place.turn or turn.calls or turn.spent.used.parts]
    shown = turns[-(WIDE_TURNS if wide else NARROW_TURNS) :]
    compactions = list(known.compactions)
    size = known.size or row.get("contextSize")
    session = str(row["session"])
    sizes = (NARROW_CURVE, WIDE_CURVE) if wide else (NARROW_CURVE,)
    curves = [curve_of(known.points, compactions, size, *one) for one in sizes]
    return {
        "curves": [curve for curve in curves if curve is not None],
        "used": known.points[-1].used if known.points else None,
        "highest": max((point.used for point in known.points), default=None),
        "size": size,
        "compactions": compactions[-LISTED:],
        "hidden_compactions": max(len(compactions) - LISTED, 0),
        "total": costs.by_model.total,
        "is_counted": bool(costs.by_model.rows),
        "models": _shares(costs.by_model, lambda key: key or "model not known", lambda key: None),
        "agents": _shares(
            costs.by_agent,
            lambda key: "main agent" if key is None else known.task_of(_agent(session, key)) or _agent(session, key),
            lambda key: None if key is None else _agent(session, key),
        ),
        "prices": costs.by_model.prices,
        "turns": [_turn_row(turn) for turn in shown],
        "hidden_turns": len(turns) - len(shown),
    }


def _agent(session: str, key: str) -> str:
    return key.removeprefix(f"{session}/")


def _shares(
    result: UsageResult, name_of: Callable[[str | None], str], agent_of: Callable[[str | None], str | None]
) -> Sequence[Share]:
    return [Share(name_of(row.key), agent_of(row.key), row) for row in result.rows[:ROWS]]


def _turn_row(turn: SpentTurn) -> TurnRow:
    amount = turn.spent.amount
    return TurnRow(
        place=turn.place,
        state=turn.state,
        milliseconds=turn.milliseconds,
        calls=turn.calls,
        input=amount.input_tokens,
        cached=amount.cache_read_tokens,
        output=amount.output_tokens,
        is_counted=bool(turn.spent.used.parts),
        cost=cost_of([turn.spent]),
        context_used=turn.spent.used.context_used,
        context_size=turn.spent.used.context_size,
    )
