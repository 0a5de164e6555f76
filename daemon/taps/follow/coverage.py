"""Which events of a followed file are told by another stream, so that a session that is tapped twice is told once.

What decides is the provider's session id, and the time of the event. A stream that comes from the agent itself (`run`,
`proxy`, …) tells its session from its first line on as long as it lives. A file of the same name in the same session is
the same recording, cut short and begun anew, or moved: what it told up to its last line is not told again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.taps.follow.places import FILE_DIALECTS
from tooltap.daemon.taps.stream_ids import name_of_id

__all__ = ["Span", "is_covered", "spans"]


class Span(NamedTuple):
    """Times, in ms since the epoch, both inclusive."""

    first: float
    last: float


def spans(others: Iterable[StreamInfo], stream: str, first_t: int, grace: int) -> list[Span] | None:
    """When others tell the session of a file whose stream this is, begun at `first_t`. None while nobody can say,
    because a publisher is away and may come back.

    `others`: the streams of the session. `grace`: ms by which an agent's file and its output may differ.
    """
    found = []
    for one in others:
        first, last = one.first_t or 0, one.last_t or one.updated
        if one.stream == stream:
            continue
        if one.dialect in FILE_DIALECTS:
            # Of two namesakes the younger gives way, so that never both do.
            if name_of_id(one.stream) == name_of_id(stream) and (first, one.stream) < (first_t, stream):
                found.append(Span(0, last))
        elif one.state == "suspended":
            return None
        else:
            found.append(Span(first - grace, math.inf if one.state == "open" else last + grace))
    return found


def is_covered(ts: int, covered: Sequence[Span]) -> bool:
    return any(span.first <= ts <= span.last for span in covered)
