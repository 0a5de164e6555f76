"""Reads values from providers' lines by type. A value of another type counts as absent."""

from __future__ import annotations

from typing import Any

__all__ = ["first_string", "number", "record", "records", "string", "whole"]


def record(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def records(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def string(value: Any) -> str | None:
    return value if type(value) is str else None


def first_string(value: dict[str, Any], *keys: str) -> str | None:
    """The first of the values under these keys that is a string and not empty."""
    for key in keys:
        if (found := value.get(key)) and isinstance(found, str):
            return found
    return None


def whole(value: Any) -> int | None:
    """An integer: a count, an index, milliseconds."""
    return value if type(value) is int else None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
