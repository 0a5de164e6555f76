"""Which sessions a list has, and in what order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self, TypeAlias

SessionOrder: TypeAlias = Literal["seq", "time"]
"""Newest first: by the last event's `seq`, or by when it happened."""


FACETS = ("status", "provider", "project")
"""Keys of a session whose values are counted."""
MOST_COUNTED = 1_000
"""Values of a key that are counted: those of the most sessions."""


_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class SessionPlace(NamedTuple):
    """Where a session is in a list: in the order of time by both, in that of `seq` by this alone."""

    last_seq: int
    last_ts: int = 0
    """0 for a session whose events have no time."""

    @classmethod
    def of_cursor(cls, cursor: str) -> Self:
        """Raises `ValueError`."""
        if (found := _CURSOR.fullmatch(cursor)) is None:
            raise ValueError(cursor)
        return cls(int(found[1]), int(found[2]))

    @property
    def cursor(self) -> str:
        return f"{self.last_seq}-{self.last_ts}"

    def key(self, order: SessionOrder) -> tuple[int, ...]:
        return (self.last_seq,) if order == "seq" else (self.last_ts, self.last_seq)


class SessionFilter(NamedTuple):
    """Sessions match all of the keys that are not None, and any of the values of a key."""

    session: tuple[str, ...] | None = None
    status: tuple[str, ...] | None = None
    provider: tuple[str, ...] | None = None
    project: tuple[str, ...] | None = None
    since: int | None = None
    """The last activity is not before this, in milliseconds since the epoch."""
    until: int | None = None
    """The last activity is before this."""
    changed_after: int | None = None
    """There are events after this `seq`."""

    def matches(self, session: Mapping[str, Any]) -> bool:
        """`session`: as `SessionRow.describe` returns it."""
        last = session.get("lastTs", 0)
        return (
            all((wanted := getattr(self, key)) is None or session.get(key) in wanted for key in ("session", *FACETS))
            and (self.since is None or last >= self.since)
            and (self.until is None or last < self.until)
            and (self.changed_after is None or session["lastSeq"] > self.changed_after)
        )


ANY_SESSION = SessionFilter()


def place_of(session: Mapping[str, Any]) -> SessionPlace:
    return SessionPlace(session["lastSeq"], session.get("lastTs", 0))
