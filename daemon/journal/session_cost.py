"""What a session cost: the agent's own figure where there is one, else an estimate from the prices of its models."""

from __future__ import annotations

from typing import NamedTuple

from tooltap.daemon.journal.prices import Rates, find
from tooltap.daemon.journal.session_usage import Amount, Key, Part, SessionUsage

__all__ = ["Cost", "PricedPart", "Spending", "priced", "total_cost"]


class Cost(NamedTuple):
    usd: float
    estimated: bool
    """Computed here, or shared out here: the agent stated no figure for exactly this."""
    matched: str | None = None
    """The model whose prices were used."""


class PricedPart(NamedTuple):
    key: Key
    amount: Amount
    cost: Cost | None
    """None if it is not known."""


class Spending(NamedTuple):
    """What one session cost, and whose it is."""

    session: str
    provider: str
    project: str | None
    title: str | None
    parts: list[PricedPart]


def priced(usage: SessionUsage, own: float | None) -> list[PricedPart]:
    """The parts of a session, each token once. `own`: what the agent states of the whole session, in dollars, which the
    costs of the parts add up to."""
    parts = usage.once()
    costs = [_cost(part) for part in parts]
    if own is None or not parts:
        return [PricedPart(part.key, part.amount, cost) for part, cost in zip(parts, costs, strict=True)]
    if len(parts) == 1:
        return [PricedPart(parts[0].key, parts[0].amount, Cost(own, False))]
    is_stated = all(cost is not None and not cost.estimated for cost in costs)
    known = [cost.usd for cost in costs if cost is not None]
    if is_stated and abs(sum(known) - own) <= own / 1e6:
        exact, shares = True, known
    else:
        weights = known if len(known) == len(parts) and any(known) else [float(part.amount.tokens) for part in parts]
        exact, shares = False, [own * weight / (sum(weights) or 1.0) for weight in weights]
    return [
        PricedPart(part.key, part.amount, Cost(share, not exact and 0 < share < own))
        for part, share in zip(parts, shares, strict=True)
    ]


def total_cost(parts: list[PricedPart]) -> Cost | None:
    """None unless the cost of every part is known."""
    costs = [part.cost for part in parts if part.cost is not None]
    if not costs or len(costs) < len(parts):
        return None
    matched = sorted({cost.matched for cost in costs if cost.matched is not None})
    return Cost(sum(cost.usd for cost in costs), any(cost.estimated for cost in costs), ", ".join(matched) or None)


def _cost(part: Part) -> Cost | None:
    amount, key = part.amount, part.key
    if amount.cost_usd is not None and not amount.unstated:
        return Cost(amount.cost_usd, False)
    if key.model is None or amount.cost_usd is not None:
        return None
    rates = find(key.model, key.day, key.size, key.single)
    return None if rates is None else Cost(_at(rates, amount), True, rates.matched)


def _at(rates: Rates, amount: Amount) -> float:
    read, written = amount.cache_read_tokens, amount.cache_write_tokens
    hour = min(written, amount.cache_write_1h_tokens)
    thought = min(amount.output_tokens, amount.reasoning_tokens)
    return (
        max(0, amount.input_tokens - read - written) * rates.fresh
        + read * rates.cache_read
        + (written - hour) * rates.cache_write
        + hour * rates.cache_write_1h
        + (amount.output_tokens - thought) * rates.output
        + thought * rates.reasoning
    )
