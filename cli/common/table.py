"""Prints a table: aligned on a terminal, tab-separated in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tooltap.cli.common.printing import at_terminal, joined, say, say_text, short, styled, wants_colour
from tooltap.cli.common.terminal.columns import columns_of, fit, padded, terminal_columns

__all__ = ["print_table"]

MAX_ID, MAX_CELL = 40, 20
"""Columns of the first cell on a terminal, and of those between it and the last: one row must not push what all others
say off the screen."""
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
    """How many columns each cell gets: as many as it needs or, if that is too much, all that are long the same."""
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
