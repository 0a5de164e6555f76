"""Costs and quotas that a person may be called for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tooltap.daemon.formats import quota_words
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.notifications.rules import CallRule
from tooltap.daemon.notifications.watch import Call
from tooltap.daemon.sessions.usage import is_billed, zone_of
from tooltap.daemon.system.zone import zone_name
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.replies import Quota, UsageResult

USAGE_PERIOD = 60.0
"""Seconds between two looks at the usage of all sessions, which may take a second each."""
HOUR = 3_600_000
"""In milliseconds."""


class Spending:
    """Finds what sessions, today and the agents' quotas have used. `rules`: those that it is found for."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._looked = float("-inf")
        self._seen = -1
        """The newest event when the usage was looked at."""
        self._windows: dict[tuple[str, str | None, int | None], int] = {}
        """Window of a quota -> when it ends, as it was stated first."""

    async def look(self, rules: Iterable[CallRule], rows: Iterable[Mapping[str, Any]], now: float) -> list[Call]:
        """`rows`: of sessions that may have changed. `now`: on the monotonic clock. Raises `JournalError`."""
        found = list(_of_sessions(rows, now))
        latest = self._journal.latest
        is_wanted = any("quota" in rule.on or rule.day_usd is not None for rule in rules)
        if is_wanted and latest != self._seen and now - self._looked >= USAGE_PERIOD:
            self._looked, self._seen = now, latest
            zone = zone_name()
            today = datetime.now(zone_of(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
            request = UsageRequest(by="agent", since=int(today.timestamp() * 1_000), zone=zone)
            usage = await self._journal.usage(request)
            found += [_of_today(usage, today.date().isoformat(), now), *self._of_quotas(usage.quotas or [], now)]
        return found

    def _of_quotas(self, quotas: Iterable[Quota], now: float) -> Iterator[Call]:
        for one in quotas:
            if one.used_percent is None:
                continue
            window = one.provider, one.name, one.minutes
            length = HOUR if one.minutes is None else one.minutes * 60_000
            ends = self._windows.get(window, 0)
            if one.resets_at - ends > length / 2:  # agents compute the end anew, so it varies
                ends = self._windows[window] = one.resets_at
            key = ("quota", one.provider, one.name or "", one.minutes or 0, ends)
            about = quota_words(msgspec.to_builtins(one))
            yield Call("quota", key, {"provider": one.provider}, None, now, {one.provider: one.used_percent}, about)


def _of_sessions(rows: Iterable[Mapping[str, Any]], now: float) -> Iterator[Call]:
    for row in rows:
        cost = row.get("costUsd", row.get("knownCostUsd"))
        if cost is not None and is_billed(row["provider"]):
            yield Call("cost", ("cost", row["session"]), row, None, now, {row["provider"]: cost})


def _of_today(usage: UsageResult, day: str, now: float) -> Call:
    costs = {row.key: row.cost_usd for row in usage.rows if row.key and row.cost_usd and is_billed(row.key)}
    return Call("cost", ("cost", "", day), {}, None, now, costs)
