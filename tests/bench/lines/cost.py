"""The cost of lines: processor time per line and event, bytes of events, and bare `orjson` as a reference."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from tests.bench.harness import Figure, median
from tests.bench.lines.recorded import Recorded

__all__ = ["Cost", "bare", "figures", "total"]

GIVES = 10
"""Lines per event above which events are not reported: they then come from the end of the stream."""


class Cost(NamedTuple):
    """Lines read and events made in a run, and its processor time."""

    seconds: float
    lines: int
    events: int
    size: int
    """Bytes of the events."""
    bare: float
    """Processor seconds of `orjson.loads` and `orjson.dumps` of the same lines."""

    def of(self, lines: int) -> Cost:
        """Return the cost scaled to this number of lines."""
        share = lines / self.lines
        events, size = round(self.events * share), round(self.size * share)
        return Cost(self.seconds * share, lines, events, size, self.bare * share)


def figures(
    name: str, costs: Iterable[Cost], read: str, *, ratio: float | None = None, each: float | None = None
) -> list[Figure]:
    """Return one measurement in several units; if lines give hardly any events, figures per event are left out.
    `ratio`, `each`: targets of the ratio to bare orjson, and of the microseconds per line."""
    runs = list(costs)
    line = {} if each is None else {"target": each}
    made = [median(name, (1e6 * one.seconds / one.lines for one in runs), "µs/line", better="less", read=read, **line)]
    if all(GIVES * one.events >= one.lines for one in runs):
        made.append(median(name, (1e6 * one.seconds / one.events for one in runs), "µs/event", better="less"))
        made.append(median(name, (one.size / 1e6 / one.seconds for one in runs), "MB/s out"))
    goal = {} if ratio is None else {"target": ratio}
    return [*made, median(name, (one.bare / one.seconds for one in runs), "× bare", **goal)]


def total(costs: Sequence[Cost]) -> Cost:
    seconds, lines, events, size, bare_seconds = (sum(column) for column in zip(*costs, strict=True))
    return Cost(seconds, int(lines), int(events), int(size), bare_seconds)


def bare(recorded: Iterable[Recorded]) -> float:
    """Measure the reference: processor seconds to decode and encode the lines with `orjson`."""
    seconds = 0.0
    for one in recorded:
        lines = [line.data for line in one.lines if isinstance(line.data, bytes)]
        start = time.thread_time()
        for line in lines:
            try:
                orjson.dumps(orjson.loads(line))
            except orjson.JSONDecodeError:
                continue
        seconds += time.thread_time() - start
    return seconds
