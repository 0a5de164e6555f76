"""Metrics of what was sent as spans, as sums since a time: tokens, cost, how long requests, turns and calls took.

The sums are stored with the cursor up to which they count, in one note, and only what is stored is sent. So whatever a
daemon that is killed has counted or sent, the next one counts on from the same sums: an event counts once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.export.otlp import Attributes, Span, attribute_list
from tooltap.daemon.export.otlp_names import Metric, Name, provider_of

MOST_SERIES = 500
"""Combinations of an agent, a metric and its attributes; what is beyond is summed up under `OTHERS` and
`Name.OVERFLOW`."""
OTHERS = "others"
MOST_COUNTED = 10**12
"""A figure beyond this is no count of tokens, and no cost, and counts as 0."""
BOUNDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Upper bounds of the buckets of durations, in seconds: those that the conventions gave
`gen_ai.client.operation.duration`."""
CUMULATIVE = 2
"""A temporality, as OTLP numbers them."""
FIGURES = {
    Name.INPUT_TOKENS: Metric.INPUT_TOKENS,
    Name.OUTPUT_TOKENS: Metric.OUTPUT_TOKENS,
    Name.CACHE_READ_TOKENS: Metric.CACHE_READ_TOKENS,
    Name.CACHE_WRITE_TOKENS: Metric.CACHE_WRITE_TOKENS,
    Name.REASONING_TOKENS: Metric.REASONING_TOKENS,
    Name.COST: Metric.COST,
}
"""Attribute of a span -> the metric that sums it up."""
DURATIONS: dict[object, tuple[Metric, tuple[Name, ...]]] = {
    "chat": (Metric.REQUEST_DURATION, (Name.OPERATION, Name.PROVIDER, Name.MODEL)),
    "invoke_agent": (Metric.TURN_DURATION, (Name.OPERATION, Name.AGENT, Name.ERROR)),
    "execute_tool": (Metric.CALL_DURATION, (Name.OPERATION, Name.TOOL, Name.ERROR)),
}
"""Operation -> its metric, and the attributes of that."""

Key: TypeAlias = tuple[str, Metric, tuple[tuple[Name, str], ...]]
"""The agent, a metric, and its attributes."""


class Series(msgspec.Struct, array_like=True):
    agent: str
    metric: Metric
    attributes: dict[Name, str]
    total: float = 0
    highest: float = 0
    """What is sent of a sum: it never falls. What a correction takes away is missing from what comes next."""
    buckets: list[int] = []
    """Of durations: their number up to each of `BOUNDS`, and beyond."""


class Sums(msgspec.Struct):
    """The sums since `began`, in ms since the epoch."""

    began: int
    series: list[Series] = []


class Waits(NamedTuple):
    """What waits for a person."""

    sessions: int
    questions: int


class Metrics:
    def __init__(self, sums: Sums) -> None:
        self._began = sums.began
        self._series: dict[Key, Series] = {
            (one.agent, one.metric, tuple(one.attributes.items())): one for one in sums.series
        }

    @property
    def sums(self) -> Sums:
        return Sums(self._began, list(self._series.values()))

    def count(self, agent: str, spans: Iterable[Span]) -> None:
        """Count spans of an agent: each version of one adds what it states beyond the version before. How long it took
        counts once, when it has ended first."""
        for span in spans:
            stated, before = span.attributes, span.before or {}
            for name, metric in FIGURES.items():
                more = _number(stated.get(name)) - _number(before.get(name))
                if more:
                    self._add(agent, metric, _of_figure(metric, stated, agent), more)
            if span.before is None:
                metric, names = DURATIONS[stated[Name.OPERATION]]
                of_metric = {name: str(stated[name]) for name in names if stated.get(name) is not None}
                self._add(agent, metric, of_metric, span.seconds)

    def _add(self, agent: str, metric: Metric, attributes: dict[Name, str], more: float) -> None:
        key: Key = (agent, metric, tuple(attributes.items()))
        if key not in self._series and len(self._series) >= MOST_SERIES:
            agent, attributes = OTHERS, {Name.OVERFLOW: "true"}
            key = (agent, metric, tuple(attributes.items()))
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(agent, metric, attributes)
        series.total += more
        series.highest = max(series.highest, series.total)
        if metric in _DURATIONS:
            series.buckets = series.buckets or [0] * (len(BOUNDS) + 1)
            series.buckets[bisect_left(BOUNDS, more)] += 1


_DURATIONS = frozenset(metric for metric, _ in DURATIONS.values())


def groups_of(
    sums: Sums, waiting: Mapping[str, Waits], now: int, host: str
) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return the metrics of each agent as OTLP has them in JSON. `waiting`: agent -> what waits; `now`: in ms since the
    epoch."""
    agents = dict.fromkeys([*(one.agent for one in sums.series), *waiting])
    times = {"startTimeUnixNano": str(sums.began * 1_000_000), "timeUnixNano": str(now * 1_000_000)}
    found = []
    for agent in agents:
        metrics: dict[Metric, dict[str, Any]] = {}
        for one in sums.series:
            if one.agent == agent:
                kind = "histogram" if one.metric in _DURATIONS else "sum"
                empty = {"dataPoints": [], "aggregationTemporality": CUMULATIVE}
                more = {"isMonotonic": True} if kind == "sum" else {}
                metric = metrics.setdefault(
                    one.metric, {"name": one.metric.value, "unit": _unit(one.metric), kind: {**empty, **more}}
                )
                metric[kind]["dataPoints"].append({**times, **_point(one)})
        waits = waiting.get(agent, Waits(0, 0))
        for name, count in ((Metric.WAITING_SESSIONS, waits.sessions), (Metric.WAITING_QUESTIONS, waits.questions)):
            point = {"timeUnixNano": times["timeUnixNano"], "asInt": str(count), "attributes": []}
            metrics[name] = {"name": name.value, "unit": _unit(name), "gauge": {"dataPoints": [point]}}
        found.append((attribute_list({Name.SERVICE: agent, Name.HOST: host}), list(metrics.values())))
    return found


def count_of_points(groups: Iterable[tuple[Any, Sequence[dict[str, Any]]]]) -> int:
    """Return how many data points are in groups of metrics."""
    kinds = ("gauge", "sum", "histogram")
    return sum(
        len(one[kind]["dataPoints"]) for _, metrics in groups for one in metrics for kind in kinds if kind in one
    )


def _point(series: Series) -> dict[str, Any]:
    attributes = [
        {"key": name.value, "value": {"boolValue": True} if name is Name.OVERFLOW else {"stringValue": value}}
        for name, value in series.attributes.items()
    ]
    if series.metric in _DURATIONS:
        return {
            "attributes": attributes,
            "count": str(sum(series.buckets)),
            "sum": series.total,
            "bucketCounts": list(map(str, series.buckets)),
            "explicitBounds": list(BOUNDS),
        }
    if series.metric is Metric.COST:
        return {"attributes": attributes, "asDouble": series.highest}
    return {"attributes": attributes, "asInt": str(int(series.highest))}


def _unit(metric: Metric) -> str:
    if metric in _DURATIONS:
        return "s"
    return _UNITS.get(metric, "{token}")


_UNITS = {
    Metric.COST: "{USD}",
    Metric.WAITING_SESSIONS: "{session}",
    Metric.WAITING_QUESTIONS: "{question}",
}


def _of_figure(metric: Metric, stated: Attributes, agent: str) -> dict[Name, str]:
    """Return the attributes of a sum of tokens or dollars, which a request or a turn states."""
    model = stated.get(Name.MODEL)
    known = None if model is None else str(model)
    found = {Name.OPERATION: str(stated[Name.OPERATION])}
    found[Name.PROVIDER] = str(stated.get(Name.PROVIDER) or provider_of(known, agent))
    if known is not None:
        found[Name.MODEL] = known
    if metric is not Metric.COST:
        found[Name.MODALITY] = "unknown"
    return found


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and abs(value) <= MOST_COUNTED else 0
