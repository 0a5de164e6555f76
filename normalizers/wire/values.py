"""Typed access to values in providers' lines: a value of another type counts as absent. Also token counts, which agents
sum in different ways, and text between two marks.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from tooltap.protocol import EPOCH_MS, LATEST_MS


def record(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def records(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def string(value: Any) -> str | None:
    return value if type(value) is str else None


def strings(value: Any) -> list[str]:
    """Strings in a list; other items are dropped."""
    return [item for item in value if type(item) is str] if type(value) is list else []


def first_string(value: dict[str, Any], *keys: str) -> str | None:
    """The first of the values under these keys that is a string and not empty."""
    for key in keys:
        if (found := value.get(key)) and isinstance(found, str):
            return found
    return None


_UNIQUE = 20
"""Minimum length of a response's id that no other request has. Small servers count, or draw from a thousand numbers."""
_LONGEST_ID = 200


def request_id(response_id: Any) -> str | None:
    """The id of a response as the identity of its request; None unless it is long enough to be unique."""
    return response_id if type(response_id) is str and _UNIQUE <= len(response_id) <= _LONGEST_ID else None


_MOST_DOLLARS = 1e9
_DECIMAL = re.compile(r"\d{1,10}(?:\.\d{1,20})?", re.ASCII)
_MOST = 2**53
"""The largest integer that every client can hold; sums of a few still fit into the state and into events."""


def whole(value: Any) -> int | None:
    """Return the value if it is an integer within ±2^53 (a count, an index, milliseconds), else None."""
    return value if type(value) is int and -_MOST <= value <= _MOST else None


def dollars(value: Any) -> float | None:
    """A cost in dollars, which OpenCode Zen states as a text; None for anything that cannot be one, such as a negative
    or infinite number."""
    if type(value) is str and _DECIMAL.fullmatch(value):
        value = float(value)
    return float(value) if type(value) in (int, float) and 0 <= value <= _MOST_DOLLARS else None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def milliseconds(timestamp: Any) -> int | None:
    """Convert an ISO 8601 string to ms since the epoch. A time without a zone is UTC."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def after_epoch(seconds: Any) -> int | None:
    """Convert seconds since the epoch to ms; ms stay what they are. None for anything that is no time from 2001 to the
    year 5000."""
    if type(seconds) not in (int, float):
        return None
    return next((round(ms) for ms in (seconds * 1000, seconds) if EPOCH_MS <= ms < LATEST_MS), None)


def percent(value: Any) -> float | None:
    """Return a share of 0 to 1,000 percent, else None."""
    return float(value) if type(value) in (int, float) and 0 <= value <= 1_000 else None


def token_counts(
    prompt: Any, output: Any, read: Any = None, write: Any = None, reasoning: Any = None, *, apart: bool = False
) -> dict[str, int | None]:
    """Token counts of a usage event, for agents whose sums need no inference: prompt, output, cache reads, cache
    writes, reasoning. Anything but an integer counts as absent. `apart`: the stated prompt excludes cache reads and
    writes."""
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
    """Token counts of a usage event, for agents whose sums must be inferred.

    Agents differ in whether the prompt includes cached tokens, and the output the reasoning. The stated total shows
    which sum is meant; without a matching total, the prompt excludes the cache, and with `apart` the output excludes
    the reasoning."""
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
    """Return the text between the first opening mark and the next closing mark; None without both.

    Not a regular expression with a loop, which would try every opening mark against the whole rest of the text."""
    start = text.find(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return None if end < 0 else text[start:end]


def last_part(text: str, opening: str, closing: str) -> tuple[str, str] | None:
    """Split a text that ends with the closing mark, trailing spaces aside: (text before the first opening mark, text
    between it and the closing mark). None for any other text."""
    start = text.find(opening)
    if start < 0:
        return None
    stripped = text.rstrip()
    end = len(stripped) - len(closing)
    if end < start + len(opening) or not stripped.endswith(closing):
        return None
    return text[:start], stripped[start + len(opening) : end]
