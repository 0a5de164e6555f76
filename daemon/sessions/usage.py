"""Tokens and costs of a session, its turns and its subagents: the only module that computes them.

`SessionUsage`, which is stored in the session's row, sums up `usage` events by `UsagePart`: what one model used for one
agent on one day, with prompts of one size. Providers charge more for long prompts, so sizes end where a price may
change, and a part has one price however many requests it sums up. `once` returns the parts such that no token is
counted twice.

Prices are not stored: `priced` applies them when a session is read. The agent's own figure takes precedence over an
estimate. `report` is the reply to a `usage` request.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import msgspec

from tooltap.daemon.system.logs import get_logger
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import ModelUsage, Usage
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.replies import PricesInfo, UsageKey, UsageResult, UsageRow

# -- prices of models ------------------------------------------------------------------------------------------------


BOUNDS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Lengths of prompts, in tokens, beyond which a price may change. A prompt of size n is longer than n of them."""
_EPOCH = date(1970, 1, 1)
_LONGEST = 10_000_000
"""Tokens taken as the length of a prompt that is longer than all bounds."""
_MILLION = 1_000_000
_DIGITS = 15
"""Decimal places of a rate: a billionth of a dollar for a million tokens."""
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|apac|jp|au|ca|global)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.[a-z]"
)
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")

_log = get_logger("prices")
_lock = Lock()


class Prices(NamedTuple):
    """Version and date of the price package."""

    version: str
    """Version of the package."""
    date: str | None
    """The latest day on which the package says that it has checked a price."""


class Rates(NamedTuple):
    """Prices of a model, in dollars per token."""

    matched: str
    """The model whose prices these are, as `provider/model`."""
    fresh: float
    """Price of prompt tokens that were neither read from a cache nor written to it."""
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    reasoning: float


def find(model: str, day: int | None, size: int, single: bool) -> Rates | None:
    """Return the rates of `model` on `day` (days since the epoch; None: today) for prompts of `size`, an index into
    `BOUNDS`. None if the model is not known, or if its rates depend on more than that: on the time of day, or on the
    length of each of several prompts (not `single`)."""
    with _lock:
        return _find(model, day, size, single)


def known_prices() -> Prices | None:
    """Return the version and date of the price package; None if it is not installed or cannot be imported."""
    with _lock:
        return None if _snapshot() is None else _known()


@lru_cache(maxsize=1)
def _snapshot() -> Any:
    try:
        importlib.import_module("genai_prices")
        return importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except Exception as error:  # an import runs what it likes: of the package, and of those that it needs
        _log.warning("costs are not estimated: genai-prices cannot be imported", error=str(error))
        return None


@lru_cache(maxsize=1)
def _known() -> Prices:
    today = datetime.now(UTC).date().isoformat()
    dates = {
        found
        for provider in _snapshot().providers
        for one in (provider, *provider.models)
        for found in _DATE.findall(one.price_comments or "")
        if found <= today
    }
    installed: str = importlib.import_module("genai_prices").__version__
    return Prices(installed, max(dates, default=None))


@lru_cache(maxsize=20_000)
def _find(model: str, day: int | None, size: int, single: bool) -> Rates | None:
    known = _model(model)
    if known is None:
        return None
    provider, info = known
    if isinstance(info.prices, list) and any(hasattr(one.constraint, "start_time") for one in info.prices):
        return None
    when = datetime.now(UTC)
    if day is not None:
        try:
            when = datetime.combine(_EPOCH + timedelta(days=day), datetime.min.time(), UTC)
        except OverflowError:
            return None
    shortest = BOUNDS[size - 1] + 1 if size and single else 1
    longest = BOUNDS[size] if size < len(BOUNDS) else _LONGEST
    matched = f"{provider.id}/{info.id}"
    price = info.get_prices(when)
    rates = _rates(price, shortest, matched)
    return rates if rates == _rates(price, longest, matched) else None


@lru_cache(maxsize=2_000)
def _model(name: str) -> tuple[Any, Any] | None:
    """Return the provider and the model of a name; None for one that no provider of the package has."""
    snapshot = _snapshot()
    if snapshot is None:
        return None
    name = name.lower()
    of_provider: str | None = None
    head, slash, tail = name.partition("/")
    if _BEDROCK.match(name):
        of_provider = "aws"
    elif slash and head in {provider.id for provider in snapshot.providers}:
        of_provider, name = head, tail
    elif slash or ":" in name:  # of a provider without a price list, or of a program that runs models at home
        return None
    try:
        found: tuple[Any, Any] = snapshot.find_provider_model(name, None, of_provider, None)
    except LookupError:
        return None
    return found


def _rates(price: Any, prompt: int, matched: str) -> Rates | None:
    """Return the rates for prompts of this length; None if anything but tokens costs, or if some tokens have no
    price."""
    kinds = importlib.import_module("genai_prices.types").Usage

    def cost(**counts: int) -> Decimal:
        total: Decimal = price.calc_price(kinds(**counts))["total_price"]
        return total

    try:
        if price.input_mtok is None or price.output_mtok is None or cost(input_tokens=0, output_tokens=0):
            return None
        fresh = cost(input_tokens=prompt)
        of_output = {"input_tokens": prompt, "output_tokens": _MILLION}
        rates = (
            fresh / prompt,
            cost(input_tokens=prompt, cache_read_tokens=prompt) / prompt,
            cost(input_tokens=prompt, cache_write_tokens=prompt) / prompt,
            cost(input_tokens=prompt, cache_write_tokens=prompt, cache_write_1h_tokens=prompt) / prompt,
            (cost(**of_output) - fresh) / _MILLION,
            (cost(**of_output, output_reasoning_tokens=_MILLION) - fresh) / _MILLION,
        )
        return Rates(matched, *(float(round(rate, _DIGITS)) for rate in rates))
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return None


# -- usage of a session ----------------------------------------------------------------------------------------------


PARTS = 512
"""Maximum parts of one session. Further usage is summed up by scope and day alone, and has no price."""
MOST_TOKENS = 10**12
MOST_DOLLARS = 10**9
"""Maximum plausible cost; a higher one is ignored."""
NAME = 200
"""Maximum code points of the name of an agent or model."""
DAY_MS = 86_400_000

SCOPES = ("session", "turn", "step")
"""Scopes in order of preference: a session's own cost comes from one scope only."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)


class Key(msgspec.Struct, array_like=True, frozen=True):
    scope: str
    """Scope of the events: step, turn or session."""
    day: int | None
    """Days since the epoch (UTC)."""
    agent: str | None
    """Id of the subagent; None for the main agent."""
    model: str | None
    size: int
    """Size of each prompt (see `BOUNDS`). If an event covers several requests, no prompt is longer."""
    single: bool
    """True if each event covers one request."""


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

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def add(self, other: Amount) -> None:
        for count in COUNTS:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        if other.cost_usd is not None:
            self.cost_usd = other.cost_usd + (self.cost_usd or 0.0)
        self.unstated = self.unstated or other.unstated

    def beyond(self, other: Amount) -> Amount:
        """Return the difference from a smaller amount. No count is below 0."""
        rest = Amount(unstated=self.unstated)
        for count in COUNTS:
            setattr(rest, count, max(0, getattr(self, count) - getattr(other, count)))
        if self.cost_usd is not None:
            rest.cost_usd = max(0.0, self.cost_usd - (other.cost_usd or 0.0))
        return rest


class UsagePart(msgspec.Struct, array_like=True):
    key: Key
    amount: Amount


class SessionUsage(msgspec.Struct, omit_defaults=True):
    KINDS: ClassVar = ("session", "usage")

    parts: list[UsagePart] = []
    latest: dict[str, Amount] = {}
    """Agent, or agent and model joined by a tab -> its highest total of the session so far."""
    models: dict[str, str] = {}
    """Subagent -> its model; the key is empty for the main agent."""
    reported: list[str] = []
    """The fields of `TOKENS` that any event has reported."""
    costs: dict[str, float] = {}
    """Costs that the agent states, in dollars: scope -> the latest figure (session) or the sum of all (turn, step).
    Each subagent has its own total of the session, under `session/<agent>`."""
    context_used: int | None = None
    context_size: int | None = None

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.kind == "usage":
            self.add(entry.fields, entry.agent, ts)
        elif entry.fields.model is not None:
            agent = (entry.agent or "")[:NAME]
            if agent in self.models or len(self.models) < PARTS:
                self.models[agent] = entry.fields.model[:NAME]

    def add(self, usage: Usage, agent: str | None, ts: int | None) -> None:
        """Add a `usage` event. `agent`: the subagent's id."""
        if agent is None:
            self._note_context(usage)
        self._note_cost(usage, agent)
        agent = None if agent is None else agent[:NAME]
        model = usage.model or self.models.get(agent or "")
        day = None if ts is None else ts // DAY_MS
        stated: Sequence[tuple[str | None, Usage | ModelUsage]] = [(model, usage)]
        if usage.models:
            stated = [(one.model, one) for one in usage.models]
        for name, figures in stated:
            self._note_reported(figures)
            name = None if name is None else name[:NAME]
            amount, single = _amount(figures), usage.scope == "step"
            if usage.scope == "session":
                amount = self._news(f"{agent or ''}\t{name}" if usage.models else agent or "", amount)
                single = bool(amount.tokens) and amount.tokens == usage.context_used
            if amount.tokens or amount.cost_usd:
                key = Key(usage.scope, day, agent, name, bisect_left(BOUNDS, amount.input_tokens), single)
                self._add_part(UsagePart(key, amount))

    def absorb(self, earlier: SessionUsage) -> None:
        """Add the usage of an earlier row of the same session. Where both rows have totals of an agent, the later row's
        count."""
        agents = {name.split("\t")[0] for name in self.latest}
        for part in earlier.parts:
            if part.key.scope != "session" or (part.key.agent or "") not in agents:
                self._add_part(part)
        self.latest = earlier.latest | self.latest
        self.models = earlier.models | self.models
        self.reported = [*earlier.reported, *(one for one in self.reported if one not in earlier.reported)]
        for scope, cost in earlier.costs.items():
            later = self.costs.get(scope)
            self.costs[scope] = cost if later is None else _later(scope, cost, later)
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

    def _note_cost(self, usage: Usage, agent: str | None) -> None:
        if (cost := usage.cost_usd) is None or not is_cost(cost):
            return
        scope: str = usage.cost_scope or usage.scope
        if scope == "session" and agent is not None:
            scope = f"session/{agent[:NAME]}"
        before = self.costs.get(scope)
        self.costs[scope] = cost if before is None else _later(scope, before, cost)

    def _note_context(self, usage: Usage) -> None:
        used = usage.context_used
        if used is None and usage.scope == "step" and usage.input_tokens is not None:
            used = usage.input_tokens + (usage.output_tokens or 0)
        self.context_used = self.context_used if used is None else used
        self.context_size = self.context_size if usage.context_size is None else usage.context_size

    def _news(self, name: str, total: Amount) -> Amount:
        """Return the increase of a total over its predecessor."""
        before = self.latest.get(name)
        if before is None:
            if len(self.latest) >= PARTS:
                return Amount()
            before = self.latest[name] = Amount()
        news = total.beyond(before)
        before.add(news)
        return news

    def _add_part(self, part: UsagePart) -> None:
        if not self._joined(part.key, part.amount):
            if len(self.parts) >= PARTS:
                key = Key(part.key.scope, part.key.day if len(self.parts) < 2 * PARTS else None, None, None, 0, False)
                if self._joined(key, part.amount):
                    return
                part = UsagePart(key, part.amount)
            self.parts.append(msgspec.structs.replace(part, amount=msgspec.structs.replace(part.amount)))

    def _joined(self, key: Key, amount: Amount) -> bool:
        for known in reversed(self.parts):
            if known.key == key:
                known.amount.add(amount)
                return True
        return False


def is_cost(cost: float | None) -> bool:
    """Return whether a number is plausible as a session's cost: not negative, infinite or NaN, and not too large."""
    return cost is not None and 0 <= cost <= MOST_DOLLARS


def _later(scope: str, before: float, stated: float) -> float:
    """Combine two stated costs: the later total of a session replaces the earlier one; turns and steps are added up."""
    return stated if scope.startswith("session") else before + stated


def _amount(stated: Usage | ModelUsage) -> Amount:
    amount = Amount()
    for count in COUNTS:
        setattr(amount, count, _count(getattr(stated, count, None)))
    cost = stated.cost_usd
    # Not by its type: an event that was just made has its fields in another one.
    covers = getattr(stated, "cost_scope", None)
    if covers is not None and covers != getattr(stated, "scope", None):
        cost = None
    amount.cost_usd = cost if is_cost(cost) else None
    amount.unstated = amount.cost_usd is None
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
        more = _sum(of_model).beyond(_sum([part for part in steps if part.key.model == model]))
        if 0 < more.tokens <= missing:
            missing -= more.tokens
            key = of_model[-1].key
            largest = max(part.key.size for part in of_model)
            rest.append(UsagePart(Key(key.scope, key.day, None, model, largest, False), more))
    if missing > 0:  # steps and totals name their models differently
        rest.append(UsagePart(Key("session", totals[-1].key.day, None, None, 0, False), Amount(missing, unstated=True)))
    return rest


def _sum(parts: list[UsagePart]) -> Amount:
    whole = Amount()
    for part in parts:
        whole.add(part.amount)
    return whole


class Cost(NamedTuple):
    usd: float
    estimated: bool
    """True if the cost was computed from prices, or is a share of a larger figure: the agent stated none for exactly
    this."""
    matched: str | None = None
    """Models whose prices were used, joined by commas."""


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
        return Cost(self.dollars, self.estimated, ", ".join(sorted(self.matched)) or None)


class Spending(NamedTuple):
    """The usage and cost of one session, and the facts by which `report` groups them."""

    session: str
    provider: str
    project: str | None
    title: str | None
    parts: list[PricedPart]
    total: Total


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


_LAST_DAY = (date.max - _EPOCH).days


@dataclass
class _Group:
    total: Total
    sessions: int = 0
    title: str | None = None


def report(spent: Iterable[Spending], request: UsageRequest) -> UsageResult:
    """Return the reply to a `usage` request. It may take a second: call it in a thread."""
    key_of = _KEYS[request.by]
    total, sessions = Total(), 0
    groups: dict[str | None, _Group] = {}
    for session in spent:
        if not _is_wanted(session, request):
            continue
        wanted = [part for part in session.parts if _is_within(part.key.day, request)]
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
        **{field: getattr(total.amount, field) for field in TOKENS},
    )


def _is_wanted(session: Spending, request: UsageRequest) -> bool:
    return (
        (request.session is None or session.session in request.session)
        and (request.provider is None or session.provider in request.provider)
        and (request.project is None or session.project in request.project)
    )


def _is_within(day: int | None, request: UsageRequest) -> bool:
    if day is None:
        return request.since is None and request.until is None
    return (request.since is None or day >= request.since // DAY_MS) and (
        request.until is None or day < -(-request.until // DAY_MS)
    )


def _day(session: Spending, part: PricedPart) -> str | None:
    day = part.key.day
    return None if day is None or not 0 <= day <= _LAST_DAY else (_EPOCH + timedelta(days=day)).isoformat()


def _subagent(session: Spending, part: PricedPart) -> str | None:
    return None if part.key.agent is None else f"{session.session}/{part.key.agent}"


_KEYS: dict[UsageKey, Callable[[Spending, PricedPart], str | None]] = {
    "day": _day,
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


class Ledger:
    """State that the parts of a session (turns, subagents) share."""

    def __init__(self) -> None:
        self.used: dict[str, Amount] = {}
        """As `SessionUsage.latest`."""
        self.models: dict[str, str] = {}
        """As `SessionUsage.models`."""
        self.stated: dict[str, float] = {}
        """Agent -> the latest cost of the session that it states, in dollars."""
        self.scopes: set[str] = set()
        """Scopes for which costs are stated."""
        self.recent: list[Spent] = []
        """Parts with usage since the main agent last stated a total."""
        self.totals = 0
        """Number of totals that were shared out."""

    @property
    def scope(self) -> str | None:
        """Return the scope whose costs count."""
        return next((one for one in SCOPES if one in self.scopes), None)

    def use_model(self, agent: str | None, model: str) -> None:
        agent = (agent or "")[:NAME]
        if agent in self.models or len(self.models) < PARTS:
            self.models[agent] = model[:NAME]

    def growth(self, agent: str, total: float) -> float:
        """Return the increase of a total over its predecessor. A total that is smaller starts a new count."""
        before = self.stated.get(agent, 0.0)
        if agent in self.stated or len(self.stated) < PARTS:
            self.stated[agent] = total
        return total - before if total >= before else total


class Spent:
    """The usage of one part of a session."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.used = SessionUsage(latest=ledger.used, models=ledger.models)
        self.stated: dict[str, float] = {}
        """Scope -> cost that the agent states, in dollars."""
        self.shared: dict[int, int] = {}
        """Number of a total that was shared out, also to this part -> number of parts that share it."""

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
        """Return the tokens of the part, each once."""
        return Total.of(self.used).amount

    def _state(self, scope: str, dollars: float) -> None:
        self.stated[scope] = self.stated.get(scope, 0.0) + dollars


def cost_of(parts: Sequence[Spent]) -> Cost | None:
    """Return the cost of these parts of one session together; None if it is not known. It may take a second: call it in
    a thread."""
    scope = parts[0].ledger.scope
    stated = [part.stated[scope] for part in parts if scope is not None and scope in part.stated]
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
