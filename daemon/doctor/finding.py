"""What a check finds."""

from __future__ import annotations

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True):
    level: Literal["ok", "note", "problem"]
    """`note`: everything works, but something is missing or new. `problem`: something is broken or not private."""
    area: str
    text: str
    """One sentence."""
    advice: str | None = None
    """One sentence; every note and problem has one."""


def fine(area: str, text: str, advice: str | None = None) -> Finding:
    return Finding("ok", area, text, advice)


def note(area: str, text: str, advice: str) -> Finding:
    return Finding("note", area, text, advice)


def problem(area: str, text: str, advice: str) -> Finding:
    return Finding("problem", area, text, advice)
