"""Prints a table: aligned on a terminal, tab-separated in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from tooltap.cli.common.render import one_line, wants_colour

__all__ = ["print_table"]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    cells = [["" if value is None else one_line(str(value)) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(columns), *cells]:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    first = Column(
        columns[0], min_width=max((len(row[0]) for row in cells), default=0)
    )  # ids are copied, so they are never shortened
    head_style = "bold" if wants_colour(sys.stdout) else ""
    table = Table(first, *columns[1:], box=None, pad_edge=False, header_style=head_style)
    for row in cells:
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    Console().print(table)
