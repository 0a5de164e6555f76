"""Counts of tokens, where agents sum them in different ways."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.wire.values import whole


def token_counts(prompt: Any, output: Any, read: Any, write: Any, reasoning: Any) -> dict[str, int | None]:
    """The fields of a usage event that count tokens, where the wire states them as they are: the prompt, the output,
    what was read from the cache, what was written to it, the reasoning. Anything but an integer counts as absent."""
    return {
        "input_tokens": whole(prompt),
        "output_tokens": whole(output),
        "cache_read_tokens": whole(read),
        "cache_write_tokens": whole(write),
        "reasoning_tokens": whole(reasoning),
    }


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
    of_prompt, of_output = prompt + cached, output + thought if apart else output
    for with_cache, with_thought in (
        (prompt + cached, output),
        (prompt + cached, output + thought),
        (prompt, output),
        (prompt, output + thought),
    ):
        if with_cache + with_thought == total:
            of_prompt, of_output = with_cache, with_thought
            break
    return {
        "input_tokens": of_prompt,
        "output_tokens": of_output,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "reasoning_tokens": reasoning,
    }
