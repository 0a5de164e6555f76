"""Finds what stands between two marks in a text, in time that grows with the text and no faster.

An expression with a loop between two marks tries every opening mark against the whole rest of the text. Here the first
opening mark decides: if no closing mark follows it, none follows a later one.
"""

from __future__ import annotations


def between(text: str, opening: str, closing: str) -> str | None:
    """The text between the first opening mark and the first closing one after it."""
    start = text.find(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return None if end < 0 else text[start:end]


def last_part(text: str, opening: str, closing: str) -> tuple[str, str] | None:
    """The text before the first opening mark, and that between it and the closing mark which ends the text but for
    spaces."""
    start = text.find(opening)
    if start < 0:
        return None
    whole = text.rstrip()
    end = len(whole) - len(closing)
    if end < start + len(opening) or not whole.endswith(closing):
        return None
    return text[:start], whole[start + len(opening) : end]
