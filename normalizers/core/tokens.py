"""Counts of tokens, where agents sum them in different ways."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.wire.values import whole

__all__ = ["token_counts", "token_fields"]

_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def token_counts(*stated: Any) -> dict[str, int | None]:
    """The fields of a usage event that count tokens, where the wire states them as they are: the prompt, the output,
    what was read from the cache, what was written to it, the reasoning. Anything but an integer counts as absent."""
    return dict(zip(_FIELDS, map(whole, stated), strict=True))


def token_fields(
    prompt: int | None,
    output: int | None,
    read: int | None,
    write: int | None,
    reasoning: int | None,
    total: int | None,
    *,
    apart: bool = False,
) -> dict[str, Any]:
    """The fields of a usage event that count tokens.

    Agents differ in whether the prompt includes what was cached, and the output the reasoning. The stated total shows
    which sum is meant; without one, the prompt excludes the cache. `apart`: then the output excludes the reasoning."""
    prompt, output, cached, thought = prompt or 0, output or 0, (read or 0) + (write or 0), reasoning or 0
    sums = [(prompt + more, output + other) for more in (cached, 0) for other in (0, thought)]
    counts = next((one for one in sums if sum(one) == total), sums[1 if apart else 0])
    return dict(zip(_FIELDS, (*counts, read, write, reasoning), strict=True))
