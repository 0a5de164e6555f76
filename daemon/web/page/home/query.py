"""The filters of the table of sessions, as they stand in the address."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

import msgspec

from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.web.page.session_head import folder_name

__all__ = ["PERIOD_WORDS", "HomeQuery", "LiveRowsQuery", "RowsQuery"]

DAY = 86_400_000
PERIOD_WORDS = {"": "Any time", "day": "A day", "week": "7 days", "month": "30 days"}
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
"""Name in the address -> milliseconds since the last activity."""
Status: TypeAlias = Literal["running", "waiting", "failed", "completed", "interrupted"]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
Words: TypeAlias = Annotated[tuple[Word, ...], msgspec.Meta(max_length=100)]
Place: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}-[0-9]{1,18}\Z")]
"""Where a session is in the table."""


class _Filters(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    status: Annotated[tuple[Status, ...], msgspec.Meta(max_length=100)] = ()
    agent: Words = ()
    """Providers."""
    project: Words = ()
    """Names of their folders."""
    period: Literal["", "day", "week", "month"] = ""

    def url(self, path: str = "/", **changes: tuple[Any, ...]) -> str:
        """Return the address with other values of these filters."""
        period = (self.period,) if self.period else ()
        values = {"status": self.status, "agent": self.agent, "project": self.project, "period": period} | changes
        pairs = [(name, one) for name, several in values.items() for one in several]
        return f"{path}?{urlencode(pairs)}" if pairs else path

    def wanted(self, folders: Iterable[str]) -> SessionFilter:
        """Return which sessions are wanted. `folders`: those of all projects."""
        return SessionFilter(
            status=self.status or None,
            provider=self.agent or None,
            project=tuple(one for one in folders if folder_name(one) in self.project) if self.project else None,
            since=int(time.time() * 1_000) - PERIODS[self.period] if self.period else None,
        )


class HomeQuery(_Filters, kw_only=True, frozen=True):
    before: Place | None = None
    """The place of the last session of the page before."""


class RowsQuery(HomeQuery, kw_only=True, frozen=True):
    last: Place | None = None
    """The last session of a part that the browser had before."""


class LiveRowsQuery(_Filters, kw_only=True, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    """The browser has all changes up to this `seq`. Default: the latest."""
