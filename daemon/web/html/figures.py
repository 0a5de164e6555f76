"""Figures as a reader takes them in at a glance: how long, how many."""

from __future__ import annotations

__all__ = ["amount", "spent"]

_UNITS = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


def spent(milliseconds: float | None) -> str | None:
    """`0.3 s`, `14 s`, `1 m 40 s`, `41 min`, `1 h 03`, `3 d`; None for what cannot be a duration."""
    if milliseconds is None or not 0 <= milliseconds < 1e14:
        return None
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 10:
        return f"{minutes} m {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02}" if hours < 48 else f"{hours // 24} d"


def amount(number: int | None) -> str | None:
    """`88`, `640 k`, `1.8 M`; None for what cannot be a number of things."""
    if number is None or number < 0:
        return None
    for size, letter in _UNITS:
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f} {letter}" if scaled < 9.95 else f"{scaled:,.0f} {letter}"
    return str(number)
