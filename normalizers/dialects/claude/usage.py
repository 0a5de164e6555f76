"""What Claude states of tokens and cost. The API's `input_tokens` exclude what was cached; ours include it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import number, record, records, whole
from tooltap.protocol.events import Event, Usage

__all__ = ["Usages", "message_tokens", "result_usage", "session_usage", "turn_usage"]

Usages: TypeAlias = tuple[tuple[type[Event], dict[str, Any]], ...]
"""Events that come before the end of a turn."""

_API_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_MODEL_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "thinkingTokens")


def turn_usage(value: Line, counts: Callable[[Line], dict[str, Any]]) -> Usages:
    """Read the `usage` of a `result` line: the turn's. `counts` returns the fields of the event."""
    usage = record(value.get("usage"))
    return ((Usage, {"scope": "turn", **counts(usage)}),) if usage else ()


def result_usage(value: Line) -> Usages:
    """Read the usage of Claude's `result` line, whose cost and `modelUsage` are the session's."""
    cost = number(value.get("total_cost_usd"))
    cost_scope = None if cost is None else "session"
    usages = turn_usage(value, lambda usage: {**message_tokens(usage), "cost_usd": cost, "cost_scope": cost_scope})
    return (*usages, (Usage, session_usage(value, cost))) if _models(value) else usages


def session_usage(value: Line, cost: float | None) -> dict[str, Any]:
    """The fields of an event about the whole session: the sum of all models of `modelUsage`."""
    models = _models(value)
    totals = (_sum(*(whole(model.get(key)) for model in models)) for key in _MODEL_KEYS)
    return {"scope": "session", **_fields(*totals), "cost_usd": cost}


def message_tokens(usage: Line) -> dict[str, int | None]:
    """The fields of an event about a `usage` object of the API."""
    thinking = whole(record(usage.get("output_tokens_details")).get("thinking_tokens"))
    return _fields(*(whole(usage.get(key)) for key in _API_KEYS), thinking)


def _models(value: Line) -> list[Line]:
    return records(list(record(value.get("modelUsage")).values()))


def _fields(*counts: int | None) -> dict[str, int | None]:
    fresh, output, read, written, thinking = counts
    return {
        "input_tokens": _sum(fresh, read, written),
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": thinking,
    }


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
