"""Totals that agents state again and again: `Counters` says what each of them adds to what was counted before.

A total belongs to a process, a session or a lineage (`Usage.counter`). Streams stand for processes: each process has a
stream of its own, or says in one that it has started or resumed a session.

- A total that falls has begun at 0 again. It adds up to the earlier ones.
- The first total of a process that says `process` began at 0. One that says `session` or `lineage` goes on from the
  session's highest total. Of one that says nothing, the tokens of the process's own steps and turns decide: if the
  total is nearer to them than to them plus the earlier total, it began at 0.
- Processes that go on from each other share one total, so a lower one is of an earlier time. It includes what
  processes that say `process` have used.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

Scope: TypeAlias = Literal["process", "session", "lineage"]

COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "more_output_tokens",
)
MOST = 512
"""Maximum counters, and maximum totals, of one session; the totals of further agents are ignored."""
MOST_PROCESSES = 64
"""Maximum processes of a session, the latest ones, whose steps are compared with their totals."""
MOST_DOLLARS = 10**9
"""Maximum plausible cost; a higher one is ignored."""
_ROUNDING = 1e-9


def is_cost(cost: float | None) -> bool:
    """Return whether a number is plausible as a session's cost: not negative, infinite or NaN, and not too large."""
    return cost is not None and 0 <= cost <= MOST_DOLLARS


class Amount(msgspec.Struct, array_like=True):
    """Tokens and cost, in the terms of `usage` events."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    """Sum of the costs that the agent states."""
    unstated: bool = False
    """True if the agent states no cost for some of it."""
    more_output_tokens: int = 0
    """Output beyond the stated tokens, estimated from the recorded text."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def estimated_output_tokens(self) -> int | None:
        """Return an estimate of the output if the stated tokens are a lower bound."""
        return self.output_tokens + self.more_output_tokens if self.more_output_tokens > 0 else None

    def add(self, other: Amount) -> None:
        for count in COUNTS:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        if other.cost_usd is not None:
            self.cost_usd = other.cost_usd + (self.cost_usd or 0.0)
        self.unstated = self.unstated or other.unstated

    def take(self, other: Amount) -> Amount:
        """Subtract an amount, as far as it is there. Return what was subtracted."""
        taken = Amount(unstated=other.unstated)
        for count in COUNTS:
            part = min(getattr(self, count), getattr(other, count))
            setattr(taken, count, part)
            setattr(self, count, getattr(self, count) - part)
        if self.cost_usd is not None and other.cost_usd is not None:
            taken.cost_usd = min(self.cost_usd, other.cost_usd)
            self.cost_usd -= taken.cost_usd
        return taken

    def beyond(self, other: Amount) -> Amount:
        """Return the difference from a smaller amount. No count is below 0."""
        rest = Amount(unstated=self.unstated)
        for count in COUNTS:
            setattr(rest, count, max(0, getattr(self, count) - getattr(other, count)))
        if self.cost_usd is not None:
            rest.cost_usd = max(0.0, self.cost_usd - (other.cost_usd or 0.0))
        return rest


class Stated(msgspec.Struct, array_like=True):
    """The totals of one event."""

    counter: Scope | None
    amounts: dict[str, Amount]
    """Model -> its total; the key is empty if the event states one for all models."""
    cost: float | None
    """Dollars; None if the event states no cost of the session."""
    used: int = 0
    """Tokens of the process's own steps and turns."""

    @property
    def tokens(self) -> int:
        return sum(amount.tokens for amount in self.amounts.values())


class Counter(msgspec.Struct, array_like=True):
    """The totals of one agent in one process."""

    process: int
    """CRC-32 of the stream's name."""
    agent: str
    """Empty for the main agent."""
    own: bool
    """True if it began at 0; False if it goes on from the session's totals."""
    amounts: dict[str, Amount] = {}
    """The latest totals, by model."""
    cost: float | None = None
    scope: Scope | None = None


class Counters(msgspec.Struct, omit_defaults=True):
    """The totals of one session."""

    running: list[Counter] = []
    totals: dict[str, Amount] = {}
    """Agent, or agent and model joined by a tab -> the highest total since it last began at 0."""
    costs: dict[str, float] = {}
    """Agent -> the same for its cost, in dollars."""
    first: dict[str, Stated] = {}
    """Agent -> its first totals."""
    latest: dict[str, int] = {}
    """Agent -> the process whose totals were the latest."""
    used: dict[int, list[int]] = {}
    """Process -> tokens of its steps, and of its turns."""

    def begin(self, stream: str) -> None:
        """Note that a process has started or resumed the session in this stream."""
        process = _process(stream)
        self.used.pop(process, None)
        self.running = [one for one in self.running if one.process != process]

    def use(self, process: int, scope: str, tokens: int) -> None:
        """Note the tokens of a step or a turn; negative ones if they are corrected."""
        if process not in self.used and len(self.used) >= MOST_PROCESSES:
            del self.used[next(iter(self.used))]
        self.used.setdefault(process, [0, 0])[scope == "turn"] += tokens

    def growth(self, stream: str, agent: str, stated: Stated) -> tuple[dict[str, Amount], float | None]:
        """Return what the totals of an event add, by model, and what its cost adds."""
        process = _process(stream)
        stated.used = max(self.used.get(process, (0,)))
        one = next((one for one in self.running if one.process == process and one.agent == agent), None)
        if one is None:
            if len(self.running) >= MOST:
                return {}, None
            one = Counter(process, agent, self._begins_at_zero(agent, stated), scope=stated.counter)
            self._share(agent, own=one.own, scope=one.scope)
            self.running.append(one)
            if one.own and one.scope != "process":
                self._forget(agent)
            if agent not in self.first:
                self.first[agent] = stated
        elif _falls(one, stated):
            if not one.own and self.latest.get(agent) != process:
                return {}, None
            one.own, one.amounts, one.cost = True, {}, None
            if one.scope != "process":
                self._share(agent, own=True)
                self._forget(agent)
        self.latest[agent] = process
        return self._grow(one, stated)

    def absorb(self, earlier: Counters) -> tuple[dict[str, dict[str, Amount]], dict[str, float]]:
        """Add the counters of an earlier row of the same session. Return what of the earlier totals the later ones
        include: agent -> model -> amount, and agent -> dollars."""
        amounts: dict[str, dict[str, Amount]] = {}
        costs: dict[str, float] = {}
        for agent, stated in self.first.items():
            if not earlier.knows(agent) or earlier._begins_at_zero(agent, stated):
                continue
            for name in _of(agent, self.totals.keys() & earlier.totals.keys()):
                amount = msgspec.structs.replace(earlier.totals[name])
                amounts.setdefault(agent, {})[name.partition("\t")[2]] = amount.take(self.totals[name])
            if agent in earlier.costs and agent in self.costs:
                costs[agent] = min(earlier.costs[agent], self.costs[agent])
        known = {(one.process, one.agent) for one in self.running}
        self.running = [*(one for one in earlier.running if (one.process, one.agent) not in known), *self.running]
        for agent, stated in self.first.items():
            if stated.counter == "process":
                self._add(agent, earlier)
        self.totals = earlier.totals | self.totals
        self.costs = earlier.costs | self.costs
        self.first = self.first | earlier.first
        self.latest = earlier.latest | self.latest
        self.used = earlier.used | self.used
        return amounts, costs

    def knows(self, agent: str) -> bool:
        """Return whether there are totals of an agent."""
        return agent in self.costs or bool(_of(agent, self.totals))

    # -- internals ----------------------------------------------------------------------------------------------

    def _begins_at_zero(self, agent: str, stated: Stated) -> bool:
        if not self.knows(agent) or stated.counter == "process":
            return True
        if stated.counter is not None:
            return False
        before = sum(self.totals[name].tokens for name in _of(agent, self.totals))
        if before and (total := stated.tokens):
            return total < before or bool(stated.used and total - stated.used < before / 2)
        cost = self.costs.get(agent)
        return cost is not None and stated.cost is not None and _is_less(stated.cost, cost)

    def _grow(self, one: Counter, stated: Stated) -> tuple[dict[str, Amount], float | None]:
        grown = {}
        for model, total in stated.amounts.items():
            name = f"{one.agent}\t{model}" if model else one.agent
            before = one.amounts.get(model) if one.own else self.totals.get(name)
            if before is None and len(self.totals) >= MOST:
                continue
            if before is not None and not total.tokens:  # the event states a cost alone
                continue
            grown[model] = total.beyond(before or Amount())
            one.amounts[model] = total
            if one.own and one.scope != "process":
                self.totals[name] = msgspec.structs.replace(total)
            else:
                self.totals.setdefault(name, Amount()).add(grown[model])
        if stated.cost is None:
            return grown, None
        reached = one.cost if one.own else self.costs.get(one.agent)
        one.cost = stated.cost
        growth = max(0.0, stated.cost - (reached or 0.0))
        is_alone = one.own and one.scope != "process"
        self.costs[one.agent] = stated.cost if is_alone else self.costs.get(one.agent, 0.0) + growth
        return grown, growth

    def _add(self, agent: str, earlier: Counters) -> None:
        """Add the totals of an earlier row to those of an agent's processes."""
        for name in _of(agent, self.totals.keys() & earlier.totals.keys()):
            self.totals[name].add(earlier.totals[name])
        if agent in self.costs and agent in earlier.costs:
            self.costs[agent] += earlier.costs[agent]

    def _share(self, agent: str, *, own: bool, scope: Scope | None = None) -> None:
        """Count the totals of an agent's processes each by itself, or as one. `scope`: that of the process because of
        which this is done. A process that says `process` is always by itself, and makes no total of a session so."""
        for one in self.running:
            if one.agent == agent and one.scope != "process":
                one.own = own and not (scope == "process" and one.scope is not None)

    def _forget(self, agent: str) -> None:
        for name in _of(agent, list(self.totals)):
            del self.totals[name]
        self.costs.pop(agent, None)


def _falls(one: Counter, stated: Stated) -> bool:
    """Return whether one of the figures is lower than before. Figures that the event does not state are not
    compared."""
    for model, total in stated.amounts.items():
        before = one.amounts.get(model)
        if before is not None and (
            0 < total.input_tokens < before.input_tokens or 0 < total.output_tokens < before.output_tokens
        ):
            return True
    before_all = sum(amount.tokens for amount in one.amounts.values())
    if 0 < stated.tokens < before_all and stated.amounts.keys() == one.amounts.keys():
        return True
    return one.cost is not None and stated.cost is not None and _is_less(stated.cost, one.cost)


def _is_less(cost: float, before: float) -> bool:
    return before - cost > _ROUNDING * max(before, 1.0)


def _of(agent: str, names: Iterable[str] | Mapping[str, object]) -> list[str]:
    return [name for name in names if name.partition("\t")[0] == agent]


def _process(stream: str) -> int:
    return zlib.crc32(stream.encode("utf-8", "surrogatepass"))
