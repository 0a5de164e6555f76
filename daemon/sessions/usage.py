"""Tokens and costs of a session, its turns and its subagents: the only module that computes them.

`SessionUsage`, which is stored in the session's row, sums up `usage` events by `UsagePart`: what one model used for one
agent in one quarter of an hour, with prompts of one size. Every time zone begins its days at a quarter of an hour.
Providers charge more for long prompts, so sizes end where a price may change, and a part has one price however many
requests it sums up. What totals add to what was counted before is in `counters.py`. `once` returns the parts such that
no token is counted twice.

Prices are not stored: `priced` applies them when a session is read. The agent's own figure takes precedence over an
estimate. `report` is the reply to a `usage` request.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from tooltap.daemon.sessions.counters import COUNTS, MOST_DOLLARS, MOST_PROCESSES, Amount, Counters, Stated, is_cost
from tooltap.daemon.sessions.prices import BOUNDS, LOCAL, STATED, Rates, find, known_prices
from tooltap.daemon.system.clock import wall_clock
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import ModelUsage, QuotaWindow, Usage
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.replies import (
    BudgetInfo,
    PricesInfo,
    Quota,
    QuotaShare,
    UsageKey,
    UsageResult,
    UsageRow,
)

PARTS = 512
"""Maximum parts of one session. Further usage is summed up by scope and day alone, and has no price."""
FINE_PARTS = 96
"""Maximum parts while they are shorter than a day; with more, their times are made longer (`WIDTHS`)."""
MOST_TOKENS = 10**12
NAME = 200
"""Maximum code points of the name of an agent or model."""
RECENT, RECENT_OF_AGENT = 64, 4
"""Maximum events, the latest ones, that a later event may correct: of a session, and of one agent in one stream."""
MOST_WINDOWS = 16
"""Maximum windows of a session's quota."""
SHARES = 5
"""Maximum sessions that a quota's window lists."""
QUARTER_MS = 900_000
DAY_MS = 96 * QUARTER_MS
LONGEST_WINDOW = 32 * DAY_MS
"""Length of the longest window of a quota whose sessions are found, in ms."""
WIDTHS = (1, 2, 4, 12, 96)
"""Lengths of the times of parts, in quarters of an hour. Time zones begin their days at quarters of an hour (UTC)."""

SCOPES = ("session", "turn", "step")
"""Scopes in order of preference: a session's own cost comes from one scope only."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


FIGURES = tuple(count for count in COUNTS if count != "more_output_tokens")
BEGINNINGS = ("started", "resumed")
"""States of a session's event with which a process begins."""


class Key(msgspec.Struct, array_like=True, frozen=True):
    scope: str
    """Scope of the events: step, turn or session."""
    slot: int | None
    """The time, in `width` quarters of an hour since the epoch."""
    agent: str | None
    """Id of the subagent; None for the main agent."""
    model: str | None
    size: int
    """Size of each prompt (see `BOUNDS`). If an event covers several requests, no prompt is longer."""
    single: bool
    """True if each event covers one request."""
    width: int = WIDTHS[-1]
    """One of `WIDTHS`. Older versions stored days only."""

    @property
    def day(self) -> int | None:
        """Return the days since the epoch (UTC)."""
        return None if self.slot is None else self.slot * self.width // WIDTHS[-1]

    @property
    def middle(self) -> int | None:
        """Return the middle of the time, in milliseconds since the epoch: the time by which the part belongs to a day
        of a time zone."""
        return None if self.slot is None else (2 * self.slot + 1) * self.width * QUARTER_MS // 2

    def at_width(self, width: int) -> Key:
        """Return the key with a longer time."""
        if self.slot is None or self.width >= width:
            return self
        return msgspec.structs.replace(self, slot=self.slot * self.width // width, width=width)


class UsagePart(msgspec.Struct, array_like=True):
    key: Key
    amount: Amount


class Recent(msgspec.Struct, array_like=True):
    """What an event has added, for an event that corrects it."""

    event: int
    """CRC-32 of its id."""
    process: int
    """CRC-32 of the name of its stream."""
    agent: str | None
    scope: str
    parts: list[UsagePart]
    cost_scope: str | None
    cost: float | None
    stated: Amount | None = None
    """What the event states, which may be more than it has added: see `Pair`."""
    pair: str | None = None
    """Key in `SessionUsage.pairs`."""
    beside: bool = False


class Pair(msgspec.Struct, array_like=True):
    """What a tap states of requests without naming them, and what the agent's file states beside it (`Usage.beside`).
    These may be the same requests, so of their sums, the higher figures count."""

    own: Amount = msgspec.field(default_factory=Amount)
    """Of the tap."""
    beside: Amount | None = None
    counted: Amount | None = None
    """What the two have added; None until the file has stated anything: then it is `own`."""

    def add(self, amount: Amount, *, beside: bool) -> Amount:
        """Add what an event states. Return what it adds to what was counted."""
        if not beside and self.beside is None:
            self.own.add(amount)
            return amount
        stated_beside, counted = self._begin()
        (stated_beside if beside else self.own).add(amount)
        whole = self.own.union(stated_beside)
        grown = whole.beyond(counted)
        grown.more_output_tokens = whole.more_output_tokens - counted.more_output_tokens
        grown.unstated = amount.unstated
        self.counted = whole
        return grown

    def take(self, stated: Amount, counted: Amount, *, beside: bool) -> None:
        """Subtract what an event has stated, and what it has added."""
        (self.beside if beside and self.beside is not None else self.own).take(stated)
        if self.counted is not None:
            self.counted.take(counted)

    def absorb(self, earlier: Pair) -> Amount:
        """Add the pair of another row. Return what the two rows have counted twice."""
        if self.beside is None and earlier.beside is None:
            self.own.add(earlier.own)
            return Amount()
        beside, counted = self._begin()
        self.own.add(earlier.own)
        beside.add(earlier.beside or Amount())
        counted.add(earlier.counted or earlier.own)
        return counted.take(counted.beyond(self.own.union(beside)))

    def _begin(self) -> tuple[Amount, Amount]:
        if self.beside is None or self.counted is None:
            self.beside, self.counted = Amount(), msgspec.structs.replace(self.own)
        return self.beside, self.counted


class SessionUsage(msgspec.Struct, omit_defaults=True):
    KINDS: ClassVar = ("session", "usage")

    parts: list[UsagePart] = []
    counters: Counters = msgspec.field(default_factory=Counters)
    latest: dict[str, Amount] = {}
    """`counters.totals`, as older versions stored them."""
    models: dict[str, str] = {}
    """Subagent -> its model; the key is empty for the main agent."""
    reported: list[str] = []
    """The fields of `TOKENS` that any event has reported."""
    costs: dict[str, float] = {}
    """Costs that the agent states, in dollars: scope -> the sum. Each subagent has its own total of the session, under
    `session/<agent>`."""
    context_used: int | None = None
    context_size: int | None = None
    width: int = WIDTHS[0]
    """Length of the times of new parts (`Key.width`)."""
    recent: list[Recent] = []
    quota: list[QuotaWindow] = []
    """The account's quota, as the latest event that states it."""
    quota_ts: int = 0
    """Time of this event, in ms since the epoch."""
    pairs: dict[str, Pair] = {}
    """Scope and CRC-32 of the name of a stream, joined by a slash -> what it states of requests without naming them;
    the latest `MOST_PROCESSES`."""

    def __post_init__(self) -> None:
        if self.latest or (self.costs and not self.counters.costs and "session" in self.costs):
            self.counters.totals = self.latest
            for scope, cost in self.costs.items():
                name, _, agent = scope.partition("/")
                if name == "session":
                    self.counters.costs[agent] = cost
            self.latest = {}

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.kind == "usage":
            if entry.fields.quota and ts is not None and ts >= self.quota_ts:
                self.quota, self.quota_ts = entry.fields.quota[:MOST_WINDOWS], ts
            self.add(entry.fields, entry.agent, ts, entry.stream, entry.id)
            return
        if entry.agent is None and entry.fields.state in BEGINNINGS:
            self.counters.begin(entry.stream)
        if entry.fields.model is not None:
            agent = (entry.agent or "")[:NAME]
            if agent in self.models or len(self.models) < PARTS:
                self.models[agent] = entry.fields.model[:NAME]

    def add(self, usage: Usage, agent: str | None, ts: int | None, stream: str, event_id: str) -> float | None:
        """Add a `usage` event. `agent`: the subagent's id. Returns what its cost adds to that of the session; None if
        it states none."""
        is_total = usage.scope == "session"
        if usage.replaces is not None and not is_total and not self.take_back(usage.replaces):
            return None  # it is not known what to subtract
        if agent is None:
            self._note_context(usage)
        agent = None if agent is None else agent[:NAME]
        model = usage.model or self.models.get(agent or "")
        cost, cost_scope = None, None
        if usage.cost_usd is not None and is_cost(usage.cost_usd):
            cost, cost_scope = float(usage.cost_usd), usage.cost_scope or usage.scope
        amounts, names = self._stated(usage, model)
        grown = None
        if is_total or cost_scope == "session":
            totals = amounts if is_total else {}
            of_session = Stated(usage.counter, totals, cost if cost_scope == "session" else None)
            added, grown = self.counters.growth(stream, agent or "", of_session, usage.beside)
            amounts = added if is_total else amounts
        stated, pair = None, None
        if not is_total:
            stated = _whole(amounts.values())
            self.counters.use(_crc(stream), usage.scope, stated.tokens)
            if usage.beside is not None or usage.request is None:
                pair = f"{usage.scope}/{_crc(usage.beside or stream)}"
                self._put_pair(pair, known := self.pairs.get(pair) or Pair())
                amounts = {name: known.add(one, beside=usage.beside is not None) for name, one in amounts.items()}
                if cost is not None and cost_scope == usage.scope:
                    cost = _whole(amounts.values()).cost_usd or 0.0
        if cost_scope == "session":
            scope = "session" if agent is None else f"session/{agent}"
            if grown is not None:
                self.costs[scope] = self.costs.get(scope, 0.0) + grown
        elif cost_scope is not None and cost is not None:
            self.costs[cost_scope] = self.costs.get(cost_scope, 0.0) + cost
        parts = []
        for name, amount in amounts.items():
            single = usage.scope == "step"
            if is_total:
                single = bool(amount.tokens) and amount.tokens == usage.context_used
            if not amount.is_empty:
                key_of_part = Key(
                    usage.scope,
                    None if ts is None else ts // QUARTER_MS // self.width,
                    agent,
                    names[name],
                    bisect_left(BOUNDS, amount.input_tokens),
                    single,
                    self.width,
                )
                part = UsagePart(key_of_part, amount)
                self._add_part(part)
                parts.append(part)
        if not is_total:
            kept = (cost_scope, cost) if cost_scope != "session" else (None, None)
            beside = usage.beside is not None
            recent = Recent(_crc(event_id), _crc(stream), agent, usage.scope, parts, *kept, stated, pair, beside)
            self._remember(recent)
        return grown

    def take_back(self, event_id: str) -> bool:
        """Subtract what an event has added, because another one corrects it. Returns False if it is not known: it was
        too long ago."""
        event = _crc(event_id)
        found = next((one for one in self.recent if one.event == event), None)
        if found is None:
            return False
        self.recent = [one for one in self.recent if one is not found]
        for part in found.parts:
            self._take_part(part)
        if found.cost_scope is not None and found.cost is not None:
            self.costs[found.cost_scope] = max(0.0, self.costs.get(found.cost_scope, 0.0) - found.cost)
            if not any(one.cost_scope == found.cost_scope for one in self.recent) and not self.costs[found.cost_scope]:
                del self.costs[found.cost_scope]
        counted = _sum(found.parts)
        stated = counted if found.stated is None else found.stated
        self.counters.use(found.process, found.scope, -stated.tokens)
        if found.pair is not None and (pair := self.pairs.get(found.pair)) is not None:
            pair.take(stated, counted, beside=found.beside)
        return True

    def take_total(self, agent: str | None, model: str, amount: Amount) -> None:
        """Subtract a total of the session from its latest parts. `model`: empty for a total of all models."""
        self._take(
            amount, lambda key: key.scope == "session" and key.agent == agent and (not model or model == key.model)
        )

    def absorb(self, earlier: SessionUsage) -> None:
        """Add the usage of an earlier row of the same session. What of its totals the later ones include counts
        once."""
        amounts, costs = self.counters.absorb(earlier.counters)
        for agent, of_models in amounts.items():
            for model, amount in of_models.items():
                earlier.take_total(agent or None, model, amount)
        for agent, dollars in costs.items():
            scope = f"session/{agent}" if agent else "session"
            if scope in earlier.costs:
                earlier.costs[scope] = max(0.0, earlier.costs[scope] - dollars)
        self._widen_to(max(self.width, earlier.width))
        for part in earlier.parts:
            self._add_part(part)
        for name, pair in earlier.pairs.items():
            self._put_pair(name, known := self.pairs.get(name) or Pair())
            twice = known.absorb(pair)
            scope = name.partition("/")[0]
            self._take(twice, _has_scope(scope))
            if twice.cost_usd:
                self.costs[scope] = self.costs.get(scope, 0.0) - twice.cost_usd
        self.models = earlier.models | self.models
        self.reported = [*earlier.reported, *(one for one in self.reported if one not in earlier.reported)]
        for scope, cost in earlier.costs.items():
            self.costs[scope] = self.costs.get(scope, 0.0) + cost
        self.recent = [*earlier.recent, *self.recent][-RECENT:]
        if earlier.quota_ts > self.quota_ts:
            self.quota, self.quota_ts = earlier.quota, earlier.quota_ts
        self.context_used = earlier.context_used if self.context_used is None else self.context_used
        self.context_size = earlier.context_size if self.context_size is None else self.context_size

    def once(self) -> list[UsagePart]:
        """Return the parts of the session without counting a token twice. If the agent reports only totals, these are
        the session's totals, or its turns if they have more tokens. If it reports steps, which have one prompt each,
        these are all steps, and what the totals have beyond them."""
        scopes: dict[str, list[UsagePart]] = {"step": [], "turn": [], "session": []}
        for part in self.parts:
            scopes[part.key.scope].append(part)
        steps = scopes["step"]
        totals = scopes["session"] if _tokens(scopes["session"]) >= _tokens(scopes["turn"]) else scopes["turn"]
        return steps + _rest(totals, steps) if steps else totals

    @property
    def own_cost(self) -> float | None:
        """Return the dollars that the agent states for the whole session: the sum over the first of `SCOPES` that has a
        cost."""
        for wanted in SCOPES:
            stated = [cost for scope, cost in self.costs.items() if scope.split("/")[0] == wanted]
            if stated:
                return sum(stated) if is_cost(sum(stated)) else None
        return None

    # -- internals ----------------------------------------------------------------------------------------------

    def _note_reported(self, figures: Usage | ModelUsage) -> None:
        for field in TOKENS:
            if field not in self.reported and getattr(figures, field, None) is not None:
                self.reported.append(field)

    def _note_context(self, usage: Usage) -> None:
        used = usage.context_used
        if used is None and usage.scope == "step" and usage.input_tokens is not None:
            used = usage.input_tokens + (usage.output_tokens or 0)
        self.context_used = self.context_used if used is None else used
        self.context_size = self.context_size if usage.context_size is None else usage.context_size

    def _stated(self, usage: Usage, model: str | None) -> tuple[dict[str, Amount], dict[str, str | None]]:
        """Return the amounts of an event by model, and the models by these keys; one amount has an empty key."""
        stated: Sequence[tuple[str | None, Usage | ModelUsage]] = [(model, usage)]
        if usage.models:
            stated = [(one.model, one) for one in usage.models]
        amounts: dict[str, Amount] = {}
        names: dict[str, str | None] = {}
        for name, figures in stated:
            self._note_reported(figures)
            key = (name or "")[:NAME] if usage.models else ""
            names[key] = None if name is None else name[:NAME]
            amounts.setdefault(key, Amount()).add(_amount(figures))
        return amounts, names

    def _put_pair(self, name: str, pair: Pair) -> None:
        self.pairs.pop(name, None)
        self.pairs[name] = pair
        if len(self.pairs) > MOST_PROCESSES:
            del self.pairs[next(iter(self.pairs))]

    def _take(self, amount: Amount, is_of: Callable[[Key], bool]) -> None:
        """Subtract an amount from the latest parts of some keys."""
        left = msgspec.structs.replace(amount)
        for part in reversed(self.parts):
            if is_of(part.key):
                left.take(part.amount.take(left))
        self.parts = [part for part in self.parts if part.amount.tokens or part.amount.cost_usd]

    def _remember(self, event: Recent) -> None:
        same = [one for one in self.recent if one.process == event.process and one.agent == event.agent]
        gone = same[0] if len(same) >= RECENT_OF_AGENT else None
        self.recent = [*(one for one in self.recent if one is not gone), event][-RECENT:]

    def _add_part(self, part: UsagePart) -> None:
        part = UsagePart(part.key.at_width(self.width), part.amount)
        if not self._joined(part.key, part.amount):
            while self.width < WIDTHS[-1] and len(self.parts) >= FINE_PARTS:
                self._widen_to(WIDTHS[WIDTHS.index(self.width) + 1])
                part.key = part.key.at_width(self.width)
            if len(self.parts) >= PARTS:
                part.key = self._rough(part.key)
            if not self._joined(part.key, part.amount):
                self.parts.append(UsagePart(part.key, msgspec.structs.replace(part.amount)))

    def _rough(self, key: Key) -> Key:
        """Return the key under which usage is summed up if there are too many parts."""
        return Key(key.scope, key.slot if len(self.parts) < 2 * PARTS else None, None, None, 0, False, key.width)

    def _joined(self, key: Key, amount: Amount) -> bool:
        for known in reversed(self.parts):
            if known.key == key:
                known.amount.add(amount)
                return True
        return False

    def _widen_to(self, width: int) -> None:
        """Make the times of all parts longer, and sum up those that become the same."""
        if width > self.width:
            self.width = width
            parts: dict[Key, UsagePart] = {}
            for part in self.parts:
                key = part.key.at_width(width)
                if key in parts:
                    parts[key].amount.add(part.amount)
                else:
                    parts[key] = UsagePart(key, part.amount)
            self.parts = list(parts.values())

    def _take_part(self, part: UsagePart) -> None:
        """Subtract a part that was added."""
        key = part.key.at_width(self.width)
        for known in reversed(self.parts):
            if known.key in (key, self._rough(key)):
                known.amount.take(part.amount)
                if not known.amount.tokens and not known.amount.cost_usd:
                    self.parts.remove(known)
                return


def _has_scope(scope: str) -> Callable[[Key], bool]:
    return lambda key: key.scope == scope


def _crc(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "surrogatepass"))


def _amount(stated: Usage | ModelUsage) -> Amount:
    amount = Amount()
    for count in FIGURES:
        setattr(amount, count, _count(getattr(stated, count, None)))
    cost = stated.cost_usd
    # Not by its type: an event that was just made has its fields in another one.
    covers = getattr(stated, "cost_scope", None)
    if covers is not None and covers != getattr(stated, "scope", None):
        cost = None
    amount.cost_usd = float(cost) if cost is not None and is_cost(cost) else None
    amount.unstated = amount.cost_usd is None
    estimate = _count(getattr(stated, "estimated_output_tokens", None))
    amount.more_output_tokens = max(0, estimate - amount.output_tokens)
    return amount


def _count(stated: int | None) -> int:
    return stated if stated is not None and 0 <= stated <= MOST_TOKENS else 0


def _tokens(parts: list[UsagePart]) -> int:
    return sum(part.amount.tokens for part in parts)


def _rest(totals: list[UsagePart], steps: list[UsagePart]) -> list[UsagePart]:
    """Return what the totals have beyond the steps, by model. Which prompts the steps left out is not known, so sizes
    are upper bounds."""
    missing = _tokens(totals) - _tokens(steps)
    rest = []
    for model in dict.fromkeys(part.key.model for part in totals):
        of_model = [part for part in totals if part.key.model == model]
        stepped = _sum([part for part in steps if part.key.model == model])
        more = _sum(of_model).beyond(stepped)
        more.more_output_tokens -= min(more.output_tokens, stepped.more_output_tokens)  # it is what was estimated
        if 0 < more.tokens <= missing:
            missing -= more.tokens
            key = of_model[-1].key
            largest = max(part.key.size for part in of_model)
            rest.append(UsagePart(msgspec.structs.replace(key, agent=None, size=largest, single=False), more))
    if missing > 0:  # steps and totals name their models differently
        key = totals[-1].key
        rest.append(
            UsagePart(Key("session", key.slot, None, None, 0, False, key.width), Amount(missing, unstated=True))
        )
    return rest


def _sum(parts: list[UsagePart]) -> Amount:
    return _whole(part.amount for part in parts)


def _whole(amounts: Iterable[Amount]) -> Amount:
    whole = Amount()
    for one in amounts:
        whole.add(one)
    return whole


class Cost(NamedTuple):
    usd: float
    estimated: bool
    """True if the cost was computed from prices, or is a share of a larger figure: the agent stated none for exactly
    this."""
    matched: str | None = None
    """Models whose prices were used, joined by commas."""
    at_least: bool = False
    """True if it was computed from tokens that are a lower bound."""


class PricedPart(NamedTuple):
    key: Key
    amount: Amount
    cost: Cost | None
    """None if the cost is not known."""


class Total:
    """The sum of parts. Every figure of a session, a turn, an agent, a day … that is shown anywhere comes from here."""

    def __init__(self, parts: Iterable[PricedPart] = ()) -> None:
        self.amount = Amount()
        self.dollars: float | None = None
        """Cost of the parts whose cost is known; None if there are none."""
        self.estimated = False
        self.matched: set[str] = set()
        """The models whose prices were used."""
        self.unpriced_tokens = 0
        """Tokens of the parts whose cost is not known."""
        self._is_whole = True
        for part in parts:
            self.add(part.amount, part.cost)

    @classmethod
    def of(cls, usage: SessionUsage) -> Total:
        """Return the total of a session. The agent's own figure of its cost takes precedence. It may take a second:
        call it in a thread."""
        if (own := usage.own_cost) is None:
            return cls(priced(usage))
        whole = cls()
        for part in usage.once():
            whole.amount.add(part.amount)
        whole.dollars = own
        return whole

    def add(self, amount: Amount, cost: Cost | None) -> None:
        self.amount.add(amount)
        if cost is None:
            self.unpriced_tokens += amount.tokens
            self._is_whole = False
            return
        self.dollars = cost.usd + (self.dollars or 0.0)
        self.estimated = self.estimated or cost.estimated
        if cost.matched is not None:
            self.matched.add(cost.matched)

    def join(self, other: Total) -> None:
        """Add another total."""
        self.amount.add(other.amount)
        if other.dollars is not None:
            self.dollars = other.dollars + (self.dollars or 0.0)
        self.estimated = self.estimated or other.estimated
        self.matched |= other.matched
        self.unpriced_tokens += other.unpriced_tokens
        self._is_whole = self._is_whole and other._is_whole

    @property
    def cost(self) -> Cost | None:
        """Return the cost; None unless the cost of every part is known."""
        if self.dollars is None or not self._is_whole:
            return None
        matched = ", ".join(sorted(self.matched)) or None
        return Cost(self.dollars, self.estimated, matched, self.estimated and self.amount.more_output_tokens > 0)


def known_cost(row: Mapping[str, Any]) -> float | None:
    """Return what is known of the cost of a session, of its row in a `sessions` reply: its `Total.dollars`. Sums over
    sessions are sums of these; None if nothing is known."""
    cost: float | None = row.get("costUsd", row.get("knownCostUsd"))
    return cost


class Spending(NamedTuple):
    """The usage and cost of one session, and the facts by which `report` groups them."""

    session: str
    provider: str
    project: str | None
    title: str | None
    parts: list[PricedPart]
    total: Total
    quota: list[QuotaWindow]
    quota_ts: int
    host: str
    """As filters name it."""


def priced(usage: SessionUsage) -> list[PricedPart]:
    """Return the parts of a session, each token once. If the agent states a cost of the whole session, their costs add
    up to it. It may take a second: call it in a thread."""
    own = usage.own_cost
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


def _cost(part: UsagePart) -> Cost | None:
    amount, key = part.amount, part.key
    if amount.cost_usd is not None and not amount.unstated:
        return Cost(amount.cost_usd, False)
    if key.model is None or amount.cost_usd is not None:
        return None
    rates = find(key.model, key.day, key.size, key.single)
    if rates is None:
        return None
    if rates.matched in (LOCAL, STATED):  # which is no price of a list
        return Cost(_at(rates, amount), rates.matched == STATED)
    return Cost(_at(rates, amount), True, rates.matched)


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


@dataclass
class _Group:
    total: Total
    sessions: int = 0
    title: str | None = None


Dollars = Annotated[float, msgspec.Meta(gt=0, le=MOST_DOLLARS)]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars that the user wants to spend at most; None: no limit."""

    day: Dollars | None = None
    month: Dollars | None = None


class Billing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user says about bills."""

    subscription: tuple[str, ...] = ()
    """Agents that a subscription pays."""
    budget: Budget = Budget()


_billing = Billing()


def bill(billing: Billing) -> None:
    """Set what the user says about bills, for all reports of this process."""
    global _billing
    _billing = billing


def is_billed(provider: str) -> bool:
    """Return whether no subscription pays the agent: its cost is a bill."""
    return provider not in _billing.subscription


def has_budget() -> bool:
    """Return whether the user has set a budget."""
    return _billing.budget != Budget()


class _Budgets:
    """Adds up what was spent today and in this month."""

    def __init__(self, billing: Billing, zone: tzinfo) -> None:
        self._billing = billing
        self._zone = zone
        self._today = datetime.now(zone).date()
        self._spent = {"day": 0.0, "month": 0.0}

    def add(self, session: Spending) -> None:
        if session.provider in self._billing.subscription:
            return
        for part in session.parts:
            day = _date_of(part.key.middle, self._zone)
            if part.cost is not None and day is not None and day.replace(day=1) == self._today.replace(day=1):
                self._spent["month"] += part.cost.usd
                self._spent["day"] += part.cost.usd if day == self._today else 0.0

    def info(self) -> list[BudgetInfo] | None:
        limits: dict[Literal["day", "month"], float | None] = {
            "day": self._billing.budget.day,
            "month": self._billing.budget.month,
        }
        return [
            BudgetInfo(period=period, limit_usd=limit, spent_usd=self._spent[period])
            for period, limit in limits.items()
            if limit is not None
        ] or None


class _Quotas:
    """Finds the windows that agents' quotas have now, and the sessions that have used them."""

    def __init__(self) -> None:
        self._now = wall_clock()
        self._latest: dict[tuple[str, str | None, int | None], tuple[int, QuotaWindow]] = {}
        """Agent, name and length of a window -> when it was stated, and how."""
        self._used: dict[str, list[tuple[Spending, list[tuple[int, int]]]]] = {}
        """Agent -> its sessions of the last days, with the times and tokens of their parts."""

    def add(self, session: Spending) -> None:
        for window in session.quota:
            key = session.provider, window.name, window.minutes
            if key not in self._latest or self._latest[key][0] < session.quota_ts:
                self._latest[key] = session.quota_ts, window
        oldest = self._now - LONGEST_WINDOW
        parts = [(middle, part.amount.tokens) for part in session.parts if (middle := part.key.middle or 0) >= oldest]
        if parts:
            self._used.setdefault(session.provider, []).append((session, parts))

    def info(self) -> list[Quota] | None:
        found = []
        for (provider, name, minutes), (ts, window) in self._latest.items():
            length = None if minutes is None else minutes * 60_000
            ends = window.resets_at or (None if length is None else ts + length)
            if ends is None or ends <= self._now:
                continue
            begins = ts if length is None else ends - length
            found.append(
                Quota(
                    provider=provider,
                    name=name,
                    minutes=minutes,
                    used_percent=window.used_percent,
                    resets_at=ends,
                    ts=ts,
                    sessions=self._shares(provider, begins),
                )
            )
        return sorted(found, key=lambda one: (one.provider, one.minutes or 0, one.name or "")) or None

    def _shares(self, provider: str, begins: int) -> list[QuotaShare]:
        shares = []
        for session, parts in self._used.get(provider, ()):
            if tokens := sum(tokens for middle, tokens in parts if middle >= begins):
                shares.append(QuotaShare(session=session.session, title=session.title, tokens=tokens))
        return sorted(shares, key=lambda one: one.tokens, reverse=True)[:SHARES]


def report(spent: Iterable[Spending], request: UsageRequest) -> UsageResult:
    """Return the reply to a `usage` request. It may take a second: call it in a thread. Raises `ValueError` for an
    unknown time zone (`zone_of`)."""
    zone = zone_of(request.zone)
    key_of = (lambda session, part: _day(part.key, zone)) if request.by == "day" else _KEYS[request.by]
    since = None if request.since is None else _date_of(request.since, zone)
    until = None if request.until is None else _date_of(max(request.until - 1, 0), zone)

    def is_within(key: Key) -> bool:
        if since is None and until is None:
            return True
        day = _date_of(key.middle, zone)
        return day is not None and (since is None or day >= since) and (until is None or day <= until)

    billing = _billing
    is_of_all = request.session is request.provider is request.project is request.host is None
    budgets = _Budgets(billing, zone) if is_of_all and has_budget() else None
    quotas = _Quotas() if is_of_all else None
    providers: set[str] = set()
    total, sessions = Total(), 0
    groups: dict[str | None, _Group] = {}
    for session in spent:
        if not _is_wanted(session, request):
            continue
        if budgets is not None:
            budgets.add(session)
        if quotas is not None:
            quotas.add(session)
        wanted = [part for part in session.parts if is_within(part.key)]
        if not wanted:
            continue
        of_key: dict[str | None, list[PricedPart]] = {}
        for part in wanted:
            of_key.setdefault(key_of(session, part), []).append(part)
        for key, parts in of_key.items():
            group = groups.setdefault(key, _Group(Total()))
            group.sessions += 1
            group.total.join(_total_of(session, parts))
            if request.by == "session":
                group.title = session.title
        sessions += 1
        providers.add(session.provider)
        total.join(_total_of(session, wanted))
    rows = [_row(key, group.total, group.sessions, group.title) for key, group in groups.items()]
    if request.by == "day":
        rows.sort(key=lambda row: row.key or "", reverse=True)
    else:
        rows.sort(key=lambda row: (row.cost_usd or 0.0, row.input_tokens + row.output_tokens), reverse=True)
    prices = known_prices()
    return UsageResult(
        rows=rows,
        total=_row(None, total, sessions),
        prices=None if prices is None else PricesInfo(version=prices.version, date=prices.date),
        subscriptions=sorted(providers & set(billing.subscription)) or None,
        budgets=None if budgets is None else budgets.info(),
        quotas=None if quotas is None else quotas.info(),
        complete=True,
    )


def _total_of(session: Spending, parts: list[PricedPart]) -> Total:
    """Return the total of some parts of a session; if they are all, it is the session's own total."""
    return session.total if len(parts) == len(session.parts) else Total(parts)


def _row(key: str | None, total: Total, sessions: int, title: str | None = None) -> UsageRow:
    return UsageRow(
        key=key,
        title=title,
        sessions=sessions,
        cost_usd=total.dollars,
        cost_estimated=total.estimated,
        price_models=sorted(total.matched) or None,
        unpriced_tokens=total.unpriced_tokens,
        estimated_output_tokens=total.amount.estimated_output_tokens,
        **{field: getattr(total.amount, field) for field in TOKENS},
    )


def _is_wanted(session: Spending, request: UsageRequest) -> bool:
    return (
        (request.session is None or session.session in request.session)
        and (request.provider is None or session.provider in request.provider)
        and (request.project is None or session.project in request.project)
        and (request.host is None or session.host in request.host)
    )


def zone_of(name: str | None) -> tzinfo:
    """Return a time zone by its IANA name; UTC for None. Raises `ValueError`, with a sentence for the user."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"there is no time zone {name!r}; expected a name such as Europe/Berlin") from None


@lru_cache(maxsize=50_000)
def _date_of(ts: int | None, zone: tzinfo) -> date | None:
    """Return the day of a time in milliseconds since the epoch; None for a time that has none."""
    try:
        return None if ts is None or ts < 0 else datetime.fromtimestamp(ts / 1_000, zone).date()
    except (ValueError, OverflowError, OSError):
        return None


def _subagent(session: Spending, part: PricedPart) -> str | None:
    return None if part.key.agent is None else f"{session.session}/{part.key.agent}"


def _day(key: Key, zone: tzinfo) -> str | None:
    day = _date_of(key.middle, zone)
    return None if day is None else day.isoformat()


_KEYS: dict[UsageKey, Callable[[Spending, PricedPart], str | None]] = {
    "model": lambda session, part: part.key.model,
    "project": lambda session, part: session.project,
    "agent": lambda session, part: session.provider,
    "session": lambda session, part: session.session,
    "subagent": _subagent,
}


# -- costs of turns and subagents ------------------------------------------------------------------------------------


# Agents state totals of the session again and again, some of them only at the end. What a total grew by belongs to the
# parts that used anything since the one before; if they are several, it is shared out by what they used. A `Ledger`,
# which all parts of a session have in common, keeps track of that.


STEPS = 10_000


class Ledger:
    """State that the parts of a session (turns, subagents) share."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.models: dict[str, str] = {}
        """As `SessionUsage.models`."""
        self.pairs: dict[str, Pair] = {}
        self.owners: OrderedDict[str, Spent] = OrderedDict()
        """Id of an event that may be corrected -> the part that has it."""
        self.scopes: set[str] = set()
        """Scopes for which costs are stated."""
        self.recent: list[Spent] = []
        """Parts with usage since the main agent last stated a total."""
        self.totals = 0
        """Number of totals that were shared out."""
        self.steps: deque[tuple[Spent, UsagePart]] = deque(maxlen=STEPS)
        """The latest steps since the main agent last stated a total, which the next one includes."""

    @property
    def scope(self) -> str | None:
        """Return the scope whose costs count."""
        return next((one for one in SCOPES if one in self.scopes), None)

    def note_session(self, stream: str, agent: str | None, state: str | None, model: str | None) -> None:
        """Note a `session` event. `agent`: the subagent's id."""
        if agent is None and state in BEGINNINGS:
            self.counters.begin(stream)
        name = (agent or "")[:NAME]
        if model is not None and (name in self.models or len(self.models) < PARTS):
            self.models[name] = model[:NAME]


class Spent:
    """The usage of one part of a session."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.used = SessionUsage(counters=ledger.counters, models=ledger.models, pairs=ledger.pairs)
        self.stated = 0.0
        """Share of the session's cost that the agent states, in dollars."""
        self.has_share = False
        self.shared: dict[int, int] = {}
        """Number of a total that was shared out, also to this part -> number of parts that share it."""
        self._only_beside = True
        self._has_total = False
        """The main agent has stated a total in this part."""

    @property
    def is_ahead(self) -> bool:
        """Whether there is usage, all of it of an agent's file, while a tap reports the turns (`Usage.beside`): the tap
        may be about to report the start of the turn."""
        return self._only_beside and bool(self.used.parts)

    def add(self, usage: Usage, agent: str | None, ts: int | None, stream: str, event_id: str) -> None:
        ledger = self.ledger
        self._only_beside = self._only_beside and usage.beside is not None
        owner = self if usage.replaces is None else ledger.owners.get(usage.replaces, self)
        grown = owner.used.add(usage, agent, ts, stream, event_id)
        if usage.scope != "session":
            ledger.owners[event_id] = owner
            if len(ledger.owners) > RECENT:
                ledger.owners.popitem(last=False)
        if usage.scope == "step":
            added = [one for one in owner.used.recent[-1:] if one.event == _crc(event_id)]
            if usage.beside is None or not owner._has_total:
                ledger.steps += [(owner, part) for one in added for part in one.parts]
        elif usage.scope == "session" and agent is None:
            owner._has_total = True
            for other, step in ledger.steps:
                if other is not owner:
                    owner.used.take_total(None, step.key.model or "", step.amount)
            ledger.steps.clear()
        if owner not in ledger.recent:
            ledger.recent.append(owner)
        if is_cost(usage.cost_usd):
            ledger.scopes.add(usage.cost_scope or usage.scope)
        if grown is None:
            return
        parts = [self] if agent is not None else ledger.recent
        for part, share in zip(parts, _shares(parts), strict=True):
            part.stated += share * grown
            part.has_share = True
            if len(parts) > 1:
                part.shared[ledger.totals] = len(parts)
        if agent is None:
            ledger.recent = []
            ledger.totals += 1

    def cost_in(self, scope: str) -> float | None:
        """Return the dollars that the agent states for the part, in events of this scope; None if it states none."""
        if scope == "session":
            return self.stated if self.has_share else None
        return self.used.costs.get(scope)

    @property
    def amount(self) -> Amount:
        """Return the tokens of the part, each once."""
        return Total.of(self.used).amount


def cost_of(parts: Sequence[Spent]) -> Cost | None:
    """Return the cost of these parts of one session together; None if it is not known. It may take a second: call it in
    a thread."""
    scope = parts[0].ledger.scope
    stated = [cost for part in parts if scope is not None and (cost := part.cost_in(scope)) is not None]
    if stated:
        shares = Counter(total for part in parts for total in part.shared)
        of_all = {total: count for part in parts for total, count in part.shared.items()}
        return Cost(sum(stated), scope == "session" and shares != of_all)
    return Total.of(SessionUsage(parts=[part for one in parts for part in one.used.parts])).cost


def _shares(parts: Sequence[Spent]) -> list[float]:
    """Return the share of each part in a total, by the cost of its usage at list prices, or else by its tokens."""
    if len(parts) == 1:
        return [1.0]
    costs = [Total.of(SessionUsage(parts=part.used.parts)).cost for part in parts]
    weights = [0.0 if cost is None else cost.usd for cost in costs]
    if None in costs or not any(weights):
        weights = [float(sum(one.amount.tokens for one in part.used.once())) for part in parts]
    whole = sum(weights)
    return [weight / whole if whole else 1 / len(parts) for weight in weights]
