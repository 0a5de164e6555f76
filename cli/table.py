"""Tables: drawn on a terminal, tab-separated in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from tooltap.cli.render import harmless, one_line

__all__ = ["print_table"]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    cells = [["" if value is None else one_line(str(value)) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(columns), *cells]:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in cells:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    Console().print(table)
