"""Claude's `result` line: how its turn ended, what was used, and the provider's last words."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.wire.values import number, record, records, string, whole
from tooltap.protocol.events import Event, Usage

__all__ = ["last_words", "model_tokens", "outcome", "tokens", "used"]

_VAGUE = frozenset({"success", "error", "error_during_execution"})
"""Subtypes that say less than `terminal_reason` and `stop_reason` do."""


def outcome(value: dict[str, Any], *, interrupted: bool) -> tuple[str, str | None]:
    """(state of the turn, the provider's word). A failed API request is subtype `success` with `is_error` (2.1.330)."""
    subtype, terminal, stop = (string(value.get(key)) for key in ("subtype", "terminal_reason", "stop_reason"))
    if interrupted or str(terminal).startswith("aborted"):
        state = "cancelled"
    elif subtype == "success" and value.get("is_error") is not True:
        state = "completed"
    else:
        state = "failed"
    telling = (
        subtype if subtype not in _VAGUE else None,
        terminal if terminal != "completed" else None,
        stop if state == "completed" else None,
        subtype,
    )
    return state, next((word for word in telling if word is not None), None)


def last_words(value: dict[str, Any]) -> str:
    """The result's own text: the answer of a turn, or what went wrong."""
    result = string(value.get("result"))
    if result and result.strip():
        return result
    errors = value.get("errors")
    error = value.get("error")
    texts = [*(errors if isinstance(errors, list) else []), record(error).get("message", error)]
    return "\n".join(text for text in texts if isinstance(text, str))


def used(value: dict[str, Any]) -> list[tuple[type[Event], dict[str, Any]]]:
    """`usage` is the turn's; its cost and `modelUsage` are the session's. Prompts count with what was cached."""
    events: list[tuple[type[Event], dict[str, Any]]] = []
    cost = number(value.get("total_cost_usd"))
    usage = record(value.get("usage"))
    if usage:
        events.append((Usage, {"scope": "turn", **tokens(usage), **_cost(cost, "session")}))
    models = records(list(record(value.get("modelUsage")).values()))
    if models:
        events.append((Usage, {"scope": "session", **model_tokens(models), **_cost(cost, None)}))
    return events


def tokens(usage: dict[str, Any]) -> dict[str, int | None]:
    """Of a `usage` object of the API; the prompt counts with what was cached."""
    read, written = whole(usage.get("cache_read_input_tokens")), whole(usage.get("cache_creation_input_tokens"))
    return {
        "input_tokens": _sum(whole(usage.get("input_tokens")), read, written),
        "output_tokens": whole(usage.get("output_tokens")),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": whole(record(usage.get("output_tokens_details")).get("thinking_tokens")),
    }


def model_tokens(models: list[dict[str, Any]]) -> dict[str, int | None]:
    """Of all models of a `modelUsage` object together."""

    def total(key: str) -> int | None:
        return _sum(*(whole(model.get(key)) for model in models))

    read, written = total("cacheReadInputTokens"), total("cacheCreationInputTokens")
    return {
        "input_tokens": _sum(total("inputTokens"), read, written),
        "output_tokens": total("outputTokens"),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "reasoning_tokens": total("thinkingTokens"),
    }


def _cost(cost: float | None, scope: str | None) -> dict[str, Any]:
    return {} if cost is None else {"cost_usd": cost, "cost_scope": scope}


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
