"""Costs of the parts of a session, such as its turns and subagents, by the rules that price the session (`usage.py`).

Agents state totals of the session again and again, some of them only at the end. What a total grew by belongs to the
parts that used anything since the one before; if they are several, it is shared out by what they used. A `Ledger`,
which all parts of a session have in common, keeps track of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tooltap.daemon.sessions.usage import NAME, PARTS, SCOPES, Amount, Cost, SessionUsage, Total, is_cost
from tooltap.protocol.events import Usage


class Ledger:
    """What a session's parts have in common."""

    def __init__(self) -> None:
        self.used: dict[str, Amount] = {}
        """As `SessionUsage.latest`."""
        self.models: dict[str, str] = {}
        """As `SessionUsage.models`."""
        self.stated: dict[str, float] = {}
        """Agent -> the latest total that it states of the session, in dollars."""
        self.scopes: set[str] = set()
        """The scopes for which costs are stated."""
        self.recent: list[Spent] = []
        """The parts that used anything since the main agent stated a total."""
        self.totals = 0
        """How many totals were shared out."""

    @property
    def scope(self) -> str | None:
        """The scope of which costs are taken."""
        return next((one for one in SCOPES if one in self.scopes), None)

    def use_model(self, agent: str | None, model: str) -> None:
        agent = (agent or "")[:NAME]
        if agent in self.models or len(self.models) < PARTS:
            self.models[agent] = model[:NAME]

    def growth(self, agent: str, total: float) -> float:
        """What a total has beyond the one before. A smaller one is a new count."""
        before = self.stated.get(agent, 0.0)
        if agent in self.stated or len(self.stated) < PARTS:
            self.stated[agent] = total
        return total - before if total >= before else total


class Spent:
    """The usage of one part."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.used = SessionUsage(latest=ledger.used, models=ledger.models)
        self.stated: dict[str, float] = {}
        """Scope -> what the agent states, in dollars."""
        self.shared: dict[int, int] = {}
        """Number of a total of which the part has a share -> how many parts have one."""

    def add(self, usage: Usage, agent: str | None, ts: int | None) -> None:
        self.used.add(usage, agent, ts)
        ledger = self.ledger
        if self not in ledger.recent:
            ledger.recent.append(self)
        cost = usage.cost_usd
        if cost is None or not is_cost(cost):
            return
        scope = usage.cost_scope or usage.scope
        ledger.scopes.add(scope)
        if scope != "session":
            self._state(scope, cost)
            return
        grown = ledger.growth(agent or "", cost)
        parts = [self] if agent is not None else ledger.recent
        for part, share in zip(parts, _shares(parts), strict=True):
            part._state(scope, share * grown)
            if len(parts) > 1:
                part.shared[ledger.totals] = len(parts)
        if agent is None:
            ledger.recent = []
            ledger.totals += 1

    @property
    def amount(self) -> Amount:
        """The tokens of the part, each once."""
        return Total.of(self.used).amount

    def _state(self, scope: str, dollars: float) -> None:
        self.stated[scope] = self.stated.get(scope, 0.0) + dollars


def cost_of(parts: Sequence[Spent]) -> Cost | None:
    """Return what these parts of one session cost together; None if it is not known. It may take a second: call it in a
    thread."""
    scope = parts[0].ledger.scope
    stated = [part.stated[scope] for part in parts if scope is not None and scope in part.stated]
    if stated:
        shares = Counter(total for part in parts for total in part.shared)
        of_all = {total: count for part in parts for total, count in part.shared.items()}
        return Cost(sum(stated), scope == "session" and shares != of_all)
    return Total.of(SessionUsage(parts=[part for one in parts for part in one.used.parts])).cost


def _shares(parts: Sequence[Spent]) -> list[float]:
    """Return which share of a total each part has: by the prices of what it used, or else by its tokens."""
    if len(parts) == 1:
        return [1.0]
    costs = [Total.of(SessionUsage(parts=part.used.parts)).cost for part in parts]
    weights = [0.0 if cost is None else cost.usd for cost in costs]
    if None in costs or not any(weights):
        weights = [float(sum(one.amount.tokens for one in part.used.once())) for part in parts]
    whole = sum(weights)
    return [weight / whole if whole else 1 / len(parts) for weight in weights]
