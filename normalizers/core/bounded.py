"""Bounds of what a parser remembers: tables evict their oldest entries, and only short strings are kept.

Python's dicts keep the order of insertion, so the first key is the oldest entry.
"""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

SHORT = 4_096
"""Characters of a name, a title or a path that is remembered."""

K = TypeVar("K")
V = TypeVar("V")


def make_room(table: dict[K, V], most: int) -> None:
    """Evict the oldest entries until one more fits into `most`."""
    while len(table) >= most:
        del table[next(iter(table))]


def keep_newest(table: dict[K, V], most: int) -> None:
    """Evict the oldest entries of a table that holds more than `most`."""
    while len(table) > most:
        del table[next(iter(table))]


def put(table: dict[K, V], key: K, value: V, most: int) -> None:
    """Set an entry, and evict the oldest entries beyond `most`."""
    table[key] = value
    keep_newest(table, most)


def is_short(value: Any) -> TypeGuard[str]:
    """Whether it is a string that may be remembered."""
    return isinstance(value, str) and len(value) <= SHORT


def learn(known: Any, **stated: Any) -> dict[str, Any]:
    """Set the attributes for which another short string is stated; returns them."""
    new = {key: value for key, value in stated.items() if is_short(value) and value != getattr(known, key)}
    for key, value in new.items():
        setattr(known, key, value)
    return new
