"""Dedupes followed files against other streams: which events of a file does another stream of the session report?

A session can reach the daemon twice: live, from a tap of the agent (`run`, `proxy`, …), and from the session file that
the same agent writes. The two streams have different lines, ids and details, so their events cannot be compared one by
one. What both have is the provider's session id and the times of their events. So another stream of the same session
covers a span of time, and the file's events in that span are left out:

- A live stream covers the time from its first line on, to its last line, or without end while it is open. `grace` is
  added at both ends, because an agent prints and writes an event at slightly different times.
- A suspended live stream may be resumed. Then it would cover more, so nothing can be decided, and the file waits.
- A file stream with the same file name is the same file earlier in its life: it was truncated and begun again, or
  moved, and so got a new stream. It covers everything up to its last line. If both streams grow, the younger one gives
  way: without this rule each would be left out in favour of the other.

All other events of the file are ingested: those before the live tap began, and those after it ended. If the file itself
names no session, the session is unknown, and nothing is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.taps.follow.places import FILE_DIALECTS
from tooltap.daemon.taps.stream_ids import name_of_id
from tooltap.normalizers.core.items import Item, Produced
from tooltap.protocol.stats import Statistics

__all__ = ["Span", "is_covered", "leaves_out", "spans"]


class Span(NamedTuple):
    """A span of time, in ms since the epoch, both ends inclusive."""

    first: float
    last: float


def spans(others: Iterable[StreamInfo], stream: str, first_t: int, grace: int) -> list[Span] | None:
    """Return the spans that other streams of the session cover, for the file stream `stream`, which begins at
    `first_t`. None while that is undecided, because a publisher may come back.

    `others`: all streams of the session. `grace`: ms by which the times in an agent's file and output may differ.
    """
    found = []
    for one in others:
        first, last = one.first_t or 0, one.last_t or one.updated
        if one.stream == stream:
            continue
        if one.dialect in FILE_DIALECTS:
            # The younger of two gives way, never both.
            if name_of_id(one.stream) == name_of_id(stream) and (first, one.stream) < (first_t, stream):
                found.append(Span(0, last))
        elif one.state == "suspended":
            return None
        else:
            found.append(Span(first - grace, math.inf if one.state == "open" else last + grace))
    return found


def is_covered(ts: int, covered: Sequence[Span]) -> bool:
    """Say whether a time is in one of the spans."""
    return any(span.first <= ts <= span.last for span in covered)


def leaves_out(statistics: Statistics, horizon: int, covered: Sequence[Span]) -> Callable[[Sequence[Item]], bool]:
    """Return what decides whether a line is left out: another stream covers its time; or it is older than `horizon`,
    and nothing before it was ingested. `statistics`: of the file's stream, as they change."""

    def leave_out(items: Sequence[Item]) -> bool:
        ts = next((item.ts for item in items if isinstance(item, Produced)), None)
        if ts is None:
            return False
        too_old = ts < horizon and not statistics.events
        return too_old or is_covered(ts, covered)

    return leave_out
