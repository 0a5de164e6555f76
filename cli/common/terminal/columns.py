"""Lines that fit a terminal: how many columns a text takes, and how it is cut or wrapped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

__all__ = ["columns_of", "fit", "fit_end", "padded", "terminal_columns", "wrapped"]

IN_A_PIPE = 100
"""Columns where no terminal says how many it has."""
LEAST = 20


def terminal_columns() -> int:
    import shutil  # those who print into a pipe do not wait for it

    return max(shutil.get_terminal_size((IN_A_PIPE, 24)).columns, LEAST)


def columns_of(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(one: str) -> int:
    if one < "\u0300":
        return 1
    if unicodedata.combining(one) or unicodedata.category(one) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in ("W", "F") else 1


def fit(text: str, columns: int) -> str:
    """The beginning of a line."""
    if columns_of(text) <= columns:
        return text
    return f"{text[: _reach(text, columns - 1)]}…" if columns > 0 else ""


def fit_end(text: str, columns: int) -> str:
    """The end of a line, which tells more of a path."""
    if columns_of(text) <= columns:
        return text
    return f"…{text[len(text) - _reach(text[::-1], columns - 1) :]}" if columns > 0 else ""


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - columns_of(text))


def wrapped(line: str, columns: int, *, hanging: int = 0) -> Iterator[str]:
    """One line as several. Those after the first are indented by `hanging`; a word that is too long is broken."""
    if columns_of(line) <= columns:
        yield line
        return
    start, room, indent = 0, columns, ""
    while start < len(line):
        end = start + _reach(line[start : start + room], room)
        if end < len(line) and (space := line.rfind(" ", start, end + 1)) > start and line[start:space].strip():
            end = space
        end = max(end, start + 1)
        yield indent + line[start:end].rstrip()
        start, room, indent = end, max(columns - hanging, 1), " " * hanging
        while start < len(line) and line[start] == " ":
            start += 1


def _reach(text: str, columns: int) -> int:
    """How many code points fit."""
    if text[:columns].isascii():
        return min(len(text), columns)
    for index, one in enumerate(text):
        columns -= _columns(one)
        if columns < 0:
            return index
    return len(text)
