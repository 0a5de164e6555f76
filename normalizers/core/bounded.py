"""Tables that must not grow without bound: the oldest entries are evicted first.

Python's dicts keep the order of insertion, so the first key is the oldest entry.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["keep_newest", "make_room", "put"]

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
