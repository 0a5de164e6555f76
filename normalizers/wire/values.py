"""Values from providers' lines, read by type. A value of another type counts as absent."""

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
