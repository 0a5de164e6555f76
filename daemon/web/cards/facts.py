"""The short facts at the end of a row: how a call ended, what it changed or found, how long it took."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Fact", "said"]


class Fact(NamedTuple):
    text: str
    name: str = ""
    """Of what is drawn in its own way, or replaced by a later fact: `exit`, `added`, `removed`, `took`, `cost`,
    `context`."""


def said(*texts: str | None) -> tuple[Fact, ...]:
    """Return plain facts, without those that are None."""
    return tuple(Fact(text) for text in texts if text is not None)
