"""Finds where any of many short literals occurs in a text.

Hyperscan looks for all of them in one pass, at the speed of memory. Where it has no wheel, a regular
expression finds the same places, forty times slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Literal", "finder", "find_with_re", "find_with_hyperscan"]

Find = Callable[[bytes], list[tuple[int, int]]]
"""Returns (where a literal begins, its number) for each place, in order; places may overlap."""


class Literal(NamedTuple):
    text: bytes
    caseless: bool
    """It is in lower case, and the text may be in either."""
    tail: bytes = b""
    """A set of characters as an expression …"""
    times: int = 0
    """… of which so many follow."""

    @property
    def pattern(self) -> bytes:
        return re.escape(self.text) + (b"%b{%d}" % (self.tail, self.times) if self.times else b"")


def finder(literals: Sequence[Literal]) -> Find:
    try:
        return find_with_hyperscan(literals)
    except ImportError:
        return find_with_re(literals)


def find_with_hyperscan(literals: Sequence[Literal]) -> Find:
    """Raises `ImportError` if it is not installed, or this processor is too old for it."""
    import hyperscan

    try:
        database = hyperscan.Database()
        database.compile(
            expressions=[one.pattern for one in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[hyperscan.HS_FLAG_CASELESS if one.caseless else 0 for one in literals],
        )
    except hyperscan.HyperscanError as error:
        raise ImportError(str(error)) from None
    lengths = [len(one.text) + one.times for one in literals]
    lock = Lock()

    def find(text: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        def add(number: int, _start: int, end: int, _flags: int, _context: Any) -> None:
            found.append((end - lengths[number], number))

        with lock:  # the memory in which it works belongs to the database
            database.scan(text, match_event_handler=add)
        found.sort()
        return found

    return find


def find_with_re(literals: Sequence[Literal]) -> Find:
    starts: dict[bytes, list[tuple[int, bytes, re.Pattern[bytes]]]] = {}
    """The first two bytes in lower case -> numbers, in lower case, and as they are in the text."""
    for number, one in enumerate(literals):
        lower = one.text.lower()
        exact = re.compile(one.pattern, re.IGNORECASE if one.caseless else 0)
        starts.setdefault(lower[:2], []).append((number, lower, exact))
    tree: _Tree = {}
    shorter = b"\0"
    for lower in sorted({lower for of_start in starts.values() for _, lower, _ in of_start}):
        if lower.startswith(shorter):
            continue  # which is found in its place, and then all that begin so are tried
        shorter, node = lower, tree
        for at in range(len(lower)):
            node = node.setdefault(lower[at : at + 1], {})
    pattern = re.compile(
        b"|".join(re.escape(first) + b"(?=" + _of_tree(after) + b")" for first, after in sorted(tree.items()))
    )

    def find(text: bytes) -> list[tuple[int, int]]:
        lower = text.lower()
        found = []
        for match in pattern.finditer(lower):
            at = match.start()
            for number, literal, exact in starts[lower[at : at + 2]]:
                if lower.startswith(literal, at) and exact.match(text, at):
                    found.append((at, number))
        found.sort()
        return found

    return find


_Tree: TypeAlias = "dict[bytes, _Tree]"


def _of_tree(tree: _Tree) -> bytes:
    """An expression for every literal of a tree, which tries each character once."""
    if not any(tree.values()):
        return b"[" + b"".join(map(re.escape, sorted(tree))) + b"]"
    branches = [re.escape(char) + (_of_tree(after) if after else b"") for char, after in sorted(tree.items())]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
