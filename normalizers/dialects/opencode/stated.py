"""What OpenCode states of tokens, cost and errors."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.emitter import Emitter
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.tokens import token_fields
from tooltap.normalizers.wire.values import first_string, number, record, whole

__all__ = ["notice_error", "outcome_of", "read_error", "read_usage"]


def read_usage(stated: Line, *, apart: bool = False) -> dict[str, Any] | None:
    """The fields of a usage event for an object with `tokens` and `cost`; None if nothing was used yet.

    1.18.33 excludes the reasoning from the output and states a total that shows it; versions that state no total
    included the reasoning. `apart`: the output excludes it even without a total.
    """
    tokens = record(stated.get("tokens"))
    cache = record(tokens.get("cache"))
    prompt, output, reasoning, total = (whole(tokens.get(key)) for key in ("input", "output", "reasoning", "total"))
    if not prompt and not output:
        return None
    apart = apart or (reasoning or 0) > (output or 0)
    read, write = whole(cache.get("read")), whole(cache.get("write"))
    fields = token_fields(prompt, output, read, write, reasoning, total, apart=apart)
    return {**fields, "cost_usd": number(stated.get("cost"))}


def outcome_of(reason: str | None) -> str:
    """The outcome of a turn whose last step gave this reason."""
    return "failed" if reason in ("content-filter", "error") else "completed"


def read_error(error: Line) -> tuple[str, dict[str, Any]]:
    """The message and data of an error `{name, data: {message, …}}`."""
    name, data = first_string(error, "name") or "error", record(error.get("data"))
    return first_string(data, "message") or first_string(error, "message") or name, {"name": name, **data}


def notice_error(emitter: Emitter, error: Line) -> tuple[str, str]:
    """Emit the error; returns the outcome and reason of the turn it ends. A stop that the user wanted is one, too."""
    text, data = read_error(error)
    name = first_string(error, "name") or "error"
    if name == "MessageAbortedError":
        emitter.notice("interrupt", text, data=data)
        return "cancelled", name
    emitter.notice("provider-error", text, "error", data)
    return "failed", name
