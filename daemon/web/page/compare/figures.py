"""The figures of two sessions and their differences, as a reader takes them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tooltap.daemon.formats import amount, dollars, spent

__all__ = ["Figure", "figures_of", "signed"]


class Figure(NamedTuple):
    name: str
    left: str
    """Empty if it is not known."""
    right: str
    difference: str
    """What the right session has more or less; empty if that is not known."""
    worse: bool = False
    better: bool = False
    """Only of errors: of nothing else it is clear which is better."""


def figures_of(left: dict[str, Any], right: dict[str, Any]) -> list[Figure]:
    """`left`, `right`: the rows of the sessions."""
    errors = _figure("Errors", left.get("errors"), right.get("errors"), _count)
    more = (right.get("errors") or 0) - (left.get("errors") or 0)
    return [
        _figure("Time", left.get("durationMs"), right.get("durationMs"), spent),
        _figure("Turns", left.get("turns"), right.get("turns"), _count),
        _figure("Cost", left.get("costUsd"), right.get("costUsd"), dollars),
        _figure("Tokens", _tokens(left), _tokens(right), amount),
        _figure("Calls", left.get("calls"), right.get("calls"), _count),
        errors._replace(worse=more > 0, better=more < 0),
        _figure("Files", left.get("files"), right.get("files"), _count),
        _figure("Lines added", left.get("linesAdded"), right.get("linesAdded"), _count),
        _figure("Lines removed", left.get("linesRemoved"), right.get("linesRemoved"), _count),
    ]


def signed(left: float | None, right: float | None, shown: Callable[[Any], str | None]) -> str:
    """Return how much more or less the right one is, with its sign; empty if that is not known."""
    if left is None or right is None:
        return ""
    size = shown(abs(right - left))
    if size is None or size == shown(0):
        return size or ""
    return f"{'+' if right > left else '−'}{size}"


def _figure(name: str, left: float | None, right: float | None, shown: Callable[[Any], str | None]) -> Figure:
    ours, theirs = ("" if one is None else shown(one) or "" for one in (left, right))
    return Figure(name, ours, theirs, signed(left, right, shown) if ours and theirs else "")


def _count(number: int) -> str:
    return f"{number:,}"


def _tokens(row: dict[str, Any]) -> int | None:
    given = [row.get("inputTokens"), row.get("outputTokens")]
    return None if given == [None, None] else sum(one or 0 for one in given)
