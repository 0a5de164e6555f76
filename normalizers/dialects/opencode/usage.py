"""What OpenCode says of tokens and cost."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.dialects.opencode.state import Msg, int_of, object_of

__all__ = ["counts_reasoning_apart", "tokens_used"]


def counts_reasoning_apart(stated: Msg) -> bool | None:
    """Whether the output leaves out the reasoning; None if that cannot be told."""
    used, tokens = tokens_used(stated), object_of(stated, "tokens")
    if used is None or not used["reasoning_tokens"] or int_of(tokens, "total") is None:
        return None
    return bool(used["output_tokens"] != int_of(tokens, "output"))


def tokens_used(stated: Msg, *, apart: bool = False) -> dict[str, Any] | None:
    """The fields of a usage event for an object with `tokens` and `cost`; None where nothing was used yet.

    The prompt never counts what was cached. Whether the output counts the reasoning has changed: 1.18.33 leaves it out,
    and then states a total that says so; before there was a total, the output had it. `apart`: it is known to be left
    out where no total says so.
    """
    tokens = object_of(stated, "tokens")
    prompt, output = int_of(tokens, "input"), int_of(tokens, "output")
    if not prompt and not output:
        return None
    prompt, output = prompt or 0, output or 0
    cache = object_of(tokens, "cache")
    read, write, reasoning = int_of(cache, "read"), int_of(cache, "write"), int_of(tokens, "reasoning")
    cached, thought, total = (read or 0) + (write or 0), reasoning or 0, int_of(tokens, "total")
    sums = [
        (prompt + cached, output),
        (prompt + cached, output + thought),
        (prompt, output),
        (prompt, output + thought),
    ]
    wanted = next((one for one in sums if sum(one) == total), sums[1 if apart or thought > output else 0])
    cost = stated.get("cost")
    return {
        "input_tokens": wanted[0],
        "output_tokens": wanted[1],
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "reasoning_tokens": reasoning,
        "cost_usd": float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    }
