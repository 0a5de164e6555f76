"""Values from providers' lines, read by type: a value of another type counts as absent. Also counts of tokens, which
agents sum in different ways, and the text between two marks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def record(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def records(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def string(value: Any) -> str | None:
    return value if type(value) is str else None


def strings(value: Any) -> list[str]:
    """The strings in a list."""
    return [item for item in value if type(item) is str] if type(value) is list else []


def first_string(value: dict[str, Any], *keys: str) -> str | None:
    """The first of the values under these keys that is a string and not empty."""
    for key in keys:
        if (found := value.get(key)) and isinstance(found, str):
            return found
    return None


_MOST_DOLLARS = 1e9
_MOST = 2**53
"""The largest integer that every client can hold; sums of a few still fit into the state and into events."""


def whole(value: Any) -> int | None:
    """An integer: a count, an index, milliseconds."""
    return value if type(value) is int and -_MOST <= value <= _MOST else None


def dollars(value: Any) -> float | None:
    """A cost in dollars; None for anything that cannot be one, such as a negative or infinite number."""
    return float(value) if type(value) in (int, float) and 0 <= value <= _MOST_DOLLARS else None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def milliseconds(timestamp: Any) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 string. Without a zone it is UTC, on every machine."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def token_counts(
    prompt: Any, output: Any, read: Any = None, write: Any = None, reasoning: Any = None, *, apart: bool = False
) -> dict[str, int | None]:
    """The fields of a usage event that count tokens, where the wire states them as they are: the prompt, the output,
    what was read from the cache, what was written to it, the reasoning. Anything but an integer counts as absent.
    `apart`: the prompt is stated without what was read from the cache and written to it."""
    prompt, read, write = whole(prompt), whole(read), whole(write)
    return {
        "input_tokens": prompt + (read or 0) + (write or 0) if apart and prompt is not None else prompt,
        "output_tokens": whole(output),
        "cache_read_tokens": read,
        "cache_write_tokens": write,
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


def between(text: str, opening: str, closing: str) -> str | None:
    """The text between the first opening mark and the first closing one after it.

    Not an expression with a loop, which tries every opening mark against the whole rest of the text."""
    start = text.find(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return None if end < 0 else text[start:end]


def last_part(text: str, opening: str, closing: str) -> tuple[str, str] | None:
    """The text before the first opening mark, and that between it and the closing mark which ends the text but for
    spaces."""
    start = text.find(opening)
    if start < 0:
        return None
    stripped = text.rstrip()
    end = len(stripped) - len(closing)
    if end < start + len(opening) or not stripped.endswith(closing):
        return None
    return text[:start], stripped[start + len(opening) : end]
