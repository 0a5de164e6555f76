"""Text in columns of a terminal: its width, cutting, wrapping, and tables, which are tab-separated in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tooltap.cli.common.printing import at_terminal, joined, say, say_text, short, styled, wants_colour

IN_A_PIPE = 100
"""Width in columns where there is no terminal."""
LEAST = 20
_OTHERS = re.compile(r"[^\u0000-\u02ff\u0400-\u0482\u2010-\u2027\u2500-\u257f\u2713\u2717]")
"""What is not Latin, Cyrillic, a dash, a quote, an ellipsis, a line or a tick."""


def terminal_columns() -> int:
    import shutil  # those who print into a pipe do not wait for it

    return max(shutil.get_terminal_size((IN_A_PIPE, 24)).columns, LEAST)


def columns_of(text: str) -> int:
    return len(text) if _is_plain(text) else sum(map(_columns, _characters(text)))


def _is_plain(text: str) -> bool:
    """Return whether each code point is certainly one column, so that no table of widths is needed."""
    return text.isascii() or _OTHERS.search(text) is None


def _characters(text: str, start: int = 0) -> Iterator[str]:
    """Yield what a terminal shows as one character: a letter with its accents, a family of emoji."""
    from wcwidth import iter_graphemes  # its tables take 100 ms, and most text is plain

    return iter_graphemes(text, start)


def _columns(character: str) -> int:
    from wcwidth import wcswidth

    width = wcswidth(character)
    return len(character) if width < 0 else width


def fit(text: str, columns: int) -> str:
    """Cut a line to its beginning."""
    if columns_of(text) <= columns:
        return text
    return f"{text[: _reach(text, columns - 1)]}…" if columns > 0 else ""


def fit_end(text: str, columns: int) -> str:
    """Cut a line to its end, the more useful part of a path."""
    if columns_of(text) <= columns:
        return text
    if columns <= 0:
        return ""
    left, start = columns - 1, len(text)
    for character in reversed(list(_characters(text))):
        left -= _columns(character)
        if left < 0:
            break
        start -= len(character)
    return f"…{text[start:]}"


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - columns_of(text))


def wrapped(line: str, columns: int, *, hanging: int = 0) -> Iterator[str]:
    """Wrap a line. The lines after the first are indented by `hanging`; a word that is too long is broken."""
    if columns_of(line) <= columns:
        yield line
        return
    start, room, indent = 0, columns, ""
    while start < len(line):
        end = _reach(line, room, start)
        if end < len(line) and (space := line.rfind(" ", start, end + 1)) > start and line[start:space].strip():
            end = space
        if end == start:  # a character that is wider than the room
            end += len(next(_characters(line, start)))
        yield indent + line[start:end].rstrip()
        start, room, indent = end, max(columns - hanging, 1), " " * hanging
        while start < len(line) and line[start] == " ":
            start += 1


def _reach(text: str, columns: int, start: int = 0) -> int:
    """Return up to where the text, from `start`, fits into the columns."""
    end = start + columns
    if _is_plain(text[start : end + 1]):
        return min(len(text), end)
    for character in _characters(text, start):
        columns -= _columns(character)
        if columns < 0:
            return start
        start += len(character)
    return start


def say_wrapped(line: str) -> None:
    """Print a line. On a terminal it is wrapped, and the lines after the first are indented by two columns more."""
    if not at_terminal():
        say(line)
        return
    text = joined([line])
    hanging = len(text) - len(text.lstrip()) + 2
    for part in wrapped(text, terminal_columns(), hanging=hanging):
        say(part)


MAX_ID, MAX_CELL = 40, 20
"""Maximum width of the first cell on a terminal, and of those between it and the last, so that one long cell cannot
push the other columns off the screen."""
GAP = "  "


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    cells = [["" if value is None else short(value) for value in row] for row in rows]
    if not at_terminal():
        for row in [list(columns), *cells]:
            say_text("\t".join(row) + "\n")
        return
    widths = _widths([list(columns), *cells], terminal_columns())
    for number, row in enumerate([list(columns), *cells]):
        line = GAP.join(padded(fit(cell, width), width) for cell, width in zip(row, widths, strict=True)).rstrip()
        say(styled(line, "bold") if number == 0 and wants_colour() else joined([line]))


def _widths(rows: list[list[str]], room: int) -> list[int]:
    """Return the width of each column: what its longest cell needs or, if the sum exceeds `room`, at most one common
    width."""
    most = [MAX_ID, *[MAX_CELL] * (len(rows[0]) - 2), room]
    needed = [
        min(max(map(columns_of, column)), limit) for column, limit in zip(zip(*rows, strict=True), most, strict=True)
    ]
    room -= len(GAP) * (len(needed) - 1)
    longest = max(needed, default=0)
    while sum(min(width, longest) for width in needed) > room and longest > 1:
        longest -= 1
    widths = [min(width, longest) for width in needed]
    widths[-1] = max(min(needed[-1], room - sum(widths[:-1])), 1)
    return widths
