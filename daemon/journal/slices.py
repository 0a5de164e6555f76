"""Slices of output bodies: how much of a body one reply holds, and how its lines are counted."""

from __future__ import annotations

MAX_SLICE = 1024 * 1024
"""Longest slice, in bytes."""


def whole_lines(data: bytes, count: int) -> bytes:
    """At most `count` whole lines of the next `MAX_SLICE` bytes; the head of the first line if it is longer than
    that."""
    lines = data.split(b"\n", count)
    if len(lines) > count:
        return data[: len(data) - len(lines[-1])]
    if len(data) < MAX_SLICE:
        return data
    return data[: data.rfind(b"\n") + 1] or data


def count_lines(data: bytes) -> int:
    """Newlines, plus one for an unterminated last line."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
