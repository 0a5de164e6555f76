"""A progress bar on a terminal; nothing otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

__all__ = ["progress"]


@contextmanager
def progress(size: int, *, data_on_stdout: bool) -> Iterator[Callable[[int], None]]:
    """Return a function to call with the number of bytes just read, of `size` in all.

    No bar is drawn if the command prints data on the same terminal.
    """
    if size == 0 or not sys.stderr.isatty() or (data_on_stdout and sys.stdout.isatty()):
        yield lambda _: None
        return
    with click.progressbar(length=size, file=sys.stderr) as bar:
        yield bar.update
