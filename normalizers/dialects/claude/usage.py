"""Usage in Claude's lines: tokens and cost. The API's `input_tokens` exclude cached tokens; ours include them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import dollars, record, whole
from tooltap.protocol.events import Event, ModelUsage, Usage

Usages: TypeAlias = tuple[tuple[type[Event], dict[str, Any]], ...]
"""Events that come before the end of a turn."""

MODELS = 64
"""Models of `modelUsage` that are read."""
_SHORT = 200
"""Code points of a model's name."""
_MODEL_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "thinkingTokens")


def turn_usage(value: Line, counts: Callable[[Line], dict[str, Any]]) -> Usages:
    """Read the `usage` of a `result` line: the turn's. `counts` returns the fields of the event."""
    usage = record(value.get("usage"))
    return ((Usage, {"scope": "turn", **counts(usage)}),) if usage else ()


def result_usage(value: Line) -> Usages:
    """Read the usage of Claude's `result` line, whose cost and `modelUsage` are the session's."""
    cost, usage = dollars(value.get("total_cost_usd")), record(value.get("usage"))
    usages: list[tuple[type[Event], dict[str, Any]]] = []
    if usage:
        fields = {"cost_usd": cost, "cost_scope": None if cost is None else "session"}
        usages.append((Usage, {"scope": "turn", **message_tokens(usage), **fields}))
    if models := _models(value):
        usages.append((Usage, _of_session(models, cost)))
    return tuple(usages)


def session_usage(value: Line, cost: float | None) -> dict[str, Any]:
    """The fields of an event about the whole session: the sum of all models of `modelUsage`."""
    return _of_session(_models(value), cost)


def _of_session(models: dict[str, Line], cost: float | None) -> dict[str, Any]:
    totals: dict[str, int | None] = dict.fromkeys(_MODEL_KEYS)
    for model in models.values():
        for key in _MODEL_KEYS:
            if (count := whole(model.get(key))) is not None:
                totals[key] = count + (totals[key] or 0)
    stated: dict[str, Any] = {"scope": "session", **_fields(*totals.values()), "cost_usd": cost}
    return {**stated, "models": [_of_model(name, model) for name, model in models.items()] or None}


def _of_model(name: str, stated: Line) -> ModelUsage:
    counts = _fields(*(stated.get(key) for key in _MODEL_KEYS))
    return ModelUsage(model=name, **counts, cost_usd=dollars(stated.get("costUSD")))


def message_tokens(usage: Line) -> dict[str, int | None]:
    """The fields of an event about a `usage` object of the API."""
    get = usage.get
    details = get("output_tokens_details")
    thinking = details.get("thinking_tokens") if type(details) is dict else None
    read, written = get("cache_read_input_tokens"), get("cache_creation_input_tokens")
    counts = _fields(get("input_tokens"), get("output_tokens"), read, written, thinking)
    lifetimes = get("cache_creation")
    if type(lifetimes) is dict and (for_an_hour := whole(lifetimes.get("ephemeral_1h_input_tokens"))):
        counts["cache_write_1h_tokens"] = for_an_hour
    return counts


def _models(value: Line) -> dict[str, Line]:
    found = list(record(value.get("modelUsage")).items())[:MODELS]
    return {name[:_SHORT]: stated for name, stated in found if isinstance(stated, dict)}


def _fields(fresh: Any, output: Any, read: Any, written: Any, thinking: Any) -> dict[str, int | None]:
    total = None
    for count in (fresh, read, written):
        if (count := whole(count)) is not None:
            total = count + (total or 0)
    return {
        "input_tokens": total,
        "output_tokens": whole(output),
        "cache_read_tokens": whole(read),
        "cache_write_tokens": whole(written),
        "reasoning_tokens": whole(thinking),
    }
