"""A progress bar on a terminal; nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from tooltap.cli.common.printing import at_terminal, terminal


@contextmanager
def progress(size: int, *, data_on_stdout: bool) -> Iterator[Callable[[int], None]]:
    """Return a function to call with the number of bytes just read, of `size` in all.

    No bar is drawn if the command prints data on the same terminal.
    """
    if size == 0 or not at_terminal(err=True) or (data_on_stdout and at_terminal()):
        yield lambda _: None
        return
    with click.progressbar(length=size, file=terminal(err=True)) as bar:
        yield bar.update
