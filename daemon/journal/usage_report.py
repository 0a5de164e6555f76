"""Tokens and costs of many sessions, summed up by one thing: the reply to a `usage` request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta

from tooltap.daemon.journal.prices import known_prices
from tooltap.daemon.journal.session_cost import PricedPart, Spending
from tooltap.daemon.journal.session_usage import DAY_MS
from tooltap.protocol.replies import PricesInfo, UsageKey, UsageResult, UsageRow
from tooltap.protocol.requests import UsageRequest

__all__ = ["report"]

_EPOCH = date(1970, 1, 1)
_LAST_DAY = (date.max - _EPOCH).days
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class _Sum:
    def __init__(self, key: str | None = None) -> None:
        self.row = UsageRow(
            key=key,
            sessions=0,
            input_tokens=0,
            output_tokens=0,
            cache_read_tokens=0,
            cache_write_tokens=0,
            reasoning_tokens=0,
        )
        self.sessions: set[str] = set()
        self.models: set[str] = set()

    def add(self, session: str, part: PricedPart) -> None:
        row = self.row
        self.sessions.add(session)
        for field in _TOKENS:
            setattr(row, field, getattr(row, field) + getattr(part.amount, field))
        if part.cost is None:
            row.unpriced_tokens += part.amount.tokens
            return
        row.cost_usd = part.cost.usd + (row.cost_usd or 0.0)
        row.cost_estimated = row.cost_estimated or part.cost.estimated
        if part.cost.matched is not None:
            self.models.add(part.cost.matched)

    def done(self) -> UsageRow:
        self.row.sessions = len(self.sessions)
        self.row.price_models = sorted(self.models) or None
        return self.row


def report(spent: Iterable[Spending], request: UsageRequest) -> UsageResult:
    """It may take a second: call it in a thread."""
    key_of = _KEYS[request.by]
    total = _Sum()
    sums: dict[str | None, _Sum] = {}
    for session in spent:
        if not _is_wanted(session, request):
            continue
        for part in session.parts:
            if _is_within(part.key.day, request):
                key = key_of(session, part)
                one = sums.setdefault(key, _Sum(key))
                if request.by == "session":
                    one.row.title = session.title
                one.add(session.session, part)
                total.add(session.session, part)
    rows = [one.done() for one in sums.values()]
    if request.by == "day":
        rows.sort(key=lambda row: row.key or "", reverse=True)
    else:
        rows.sort(key=lambda row: (row.cost_usd or 0.0, row.input_tokens + row.output_tokens), reverse=True)
    prices = known_prices()
    return UsageResult(
        rows=rows,
        total=total.done(),
        prices=None if prices is None else PricesInfo(version=prices.version, date=prices.date),
        complete=True,
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
