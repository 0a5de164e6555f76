"""Totals that agents state again and again: `Counters` says what each of them adds to what was counted before.

A total belongs to a process, a session or a lineage (`Usage.counter`). Streams stand for processes: each process has a
stream of its own, or says in one that it has started or resumed a session.

- A total that falls has begun at 0 again. It adds up to the earlier ones.
- The first total of a process that says `process` began at 0. One that says `session` or `lineage` goes on from the
  session's highest total. Of one that says nothing, the tokens of the process's own steps and turns decide: if the
  total is nearer to them than to them plus the earlier total, it began at 0.
- Processes that go on from each other share one total, so a lower one in another stream is of an earlier time,
  whatever the order in which they are read. It includes what processes that say `process` have used.
- While a tap reports a process, the agent's file states totals as well (`Usage.beside`). What both state counts once,
  whichever is read first.
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
    def is_empty(self) -> bool:
        return not (self.cost_usd or any(getattr(self, count) for count in COUNTS))

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

    def union(self, other: Amount) -> Amount:
        """Return the higher figures of two amounts."""
        whole = msgspec.structs.replace(self)
        whole.add(other.beyond(self))
        estimates = (one.output_tokens + one.more_output_tokens for one in (self, other))
        whole.more_output_tokens = max(estimates) - whole.output_tokens
        return whole

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


class Included(msgspec.Struct, array_like=True):
    """What totals in an agent's file have added while a tap reported the process (`Usage.beside`), and the process has
    not stated itself yet."""

    process: int
    """The tap."""
    agent: str
    amounts: dict[str, Amount] = {}
    """By model."""
    cost: float = 0.0

    def take(self, model: str, amount: Amount) -> Amount:
        """Subtract the amount of a model, as far as it is there; either side may not say which model it is of. Return
        what was subtracted."""
        left, taken = msgspec.structs.replace(amount), Amount()
        for name, included in self.amounts.items():
            if name == model or not (name and model):
                part = included.take(left)
                left.take(part)
                taken.add(part)
        return taken


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
    peaks: dict[str, Amount] = {}
    """As `totals`: what they were before they began at 0 again for the first time."""
    peak_costs: dict[str, float] = {}
    included: list[Included] = []

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

    def growth(
        self, stream: str, agent: str, stated: Stated, beside: str | None = None
    ) -> tuple[dict[str, Amount], float | None]:
        """Return what the totals of an event add, by model, and what its cost adds. `beside`: see `Usage.beside`."""
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
        grown, cost = self._grow(one, stated)
        if one.scope == "process":
            return self._without_included(one, grown, cost)
        if beside is not None:
            self._include(_process(beside), agent, grown, cost)
        return grown, cost

    def absorb(self, earlier: Counters) -> tuple[dict[str, dict[str, Amount]], dict[str, float]]:
        """Add the counters of an earlier row of the same session, which may be put together from several; these are of
        one stream. Return what of the earlier totals the later ones include: agent -> model -> amount, and agent ->
        dollars."""
        amounts: dict[str, dict[str, Amount]] = {}
        costs: dict[str, float] = {}
        for agent, stated in self.first.items():
            if not earlier.knows(agent) or earlier._begins_at_zero(agent, stated):
                continue
            peaks, peak_costs = (self.peaks, self.peak_costs) if self._has_fallen(agent) else (self.totals, self.costs)
            for name in _of(agent, peaks.keys() & earlier.totals.keys()):
                amount = msgspec.structs.replace(earlier.totals[name])
                amounts.setdefault(agent, {})[name.partition("\t")[2]] = amount.take(peaks[name])
            if agent in earlier.costs and agent in peak_costs:
                costs[agent] = min(earlier.costs[agent], peak_costs[agent])
            if not self._has_fallen(agent):
                self._raise(agent, earlier)
        known = {(one.process, one.agent) for one in self.running}
        self.running = [*(one for one in earlier.running if (one.process, one.agent) not in known), *self.running]
        for agent, stated in self.first.items():
            if stated.counter == "process":
                amounts[agent], costs[agent] = self._add(agent, earlier)
        self.totals = earlier.totals | self.totals
        self.costs = earlier.costs | self.costs
        self.first = self.first | earlier.first
        self.latest = earlier.latest | self.latest
        self.used = earlier.used | self.used
        self.peaks = self.peaks | earlier.peaks
        self.peak_costs = self.peak_costs | earlier.peak_costs
        self.included = [*earlier.included, *self.included][-MOST_PROCESSES:]
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

    def _include(self, process: int, agent: str, grown: Mapping[str, Amount], cost: float | None) -> None:
        included = self._included(process, agent)
        if included is None:
            included = Included(process, agent)
            self.included = [*self.included, included][-MOST_PROCESSES:]
        for model, amount in grown.items():
            included.amounts.setdefault(model, Amount()).add(amount)
        included.cost += cost or 0.0

    def _without_included(
        self, one: Counter, grown: dict[str, Amount], cost: float | None
    ) -> tuple[dict[str, Amount], float | None]:
        """Return what a process adds beyond what totals in the agent's file have added of it."""
        included = self._included(one.process, one.agent)
        if included is None:
            return grown, cost
        for model, amount in grown.items():
            taken = included.take(model, amount)
            amount.take(taken)
            self.totals[f"{one.agent}\t{model}" if model else one.agent].take(taken)
        if cost is not None:
            known = min(cost, included.cost)
            included.cost -= known
            cost -= known
            self.costs[one.agent] -= known
        return grown, cost

    def _included(self, process: int, agent: str) -> Included | None:
        return next((one for one in self.included if (one.process, one.agent) == (process, agent)), None)

    def _add(self, agent: str, earlier: Counters) -> tuple[dict[str, Amount], float]:
        """Add the totals of an earlier row to those of an agent's processes. Return what of these the earlier ones
        include, by model, and its cost."""
        amounts: dict[str, Amount] = {}
        cost = 0.0
        processes = {one.process for one in self.running if one.agent == agent}
        for included in [one for one in earlier.included if one.agent == agent and one.process in processes]:
            for name in _of(agent, self.totals):
                model = name.partition("\t")[2]
                taken = included.take(model, self.totals[name])
                self.totals[name].take(taken)
                amounts.setdefault(model, Amount()).add(taken)
            known = min(included.cost, self.costs.get(agent, 0.0))
            cost += known
            if known:
                self.costs[agent] -= known
        for name in _of(agent, self.totals.keys() & earlier.totals.keys()):
            self.totals[name].add(earlier.totals[name])
        if agent in self.costs and agent in earlier.costs:
            self.costs[agent] += earlier.costs[agent]
        return amounts, cost

    def _raise(self, agent: str, earlier: Counters) -> None:
        """Raise an agent's totals to those of an earlier row, which are of a later time where they are higher."""
        for name in _of(agent, self.totals.keys() & earlier.totals.keys()):
            self.totals[name].add(earlier.totals[name].beyond(self.totals[name]))
        if agent in self.costs and agent in earlier.costs:
            self.costs[agent] = max(self.costs[agent], earlier.costs[agent])

    def _has_fallen(self, agent: str) -> bool:
        return agent in self.peak_costs or bool(_of(agent, self.peaks))

    def _share(self, agent: str, *, own: bool, scope: Scope | None = None) -> None:
        """Count the totals of an agent's processes each by itself, or as one. `scope`: that of the process because of
        which this is done. A process that says `process` is always by itself, and makes no total of a session so."""
        for one in self.running:
            if one.agent == agent and one.scope != "process":
                one.own = own and not (scope == "process" and one.scope is not None)

    def _forget(self, agent: str) -> None:
        if not self._has_fallen(agent):
            self.peaks |= {name: self.totals[name] for name in _of(agent, self.totals)}
            if agent in self.costs:
                self.peak_costs[agent] = self.costs[agent]
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
