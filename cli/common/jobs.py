"""`--jobs`: how many processes share the work on many recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from tooltap.cli.common.guard import guard

if TYPE_CHECKING:
    from tooltap.daemon.system.workers import Workers

Item = TypeVar("Item")
Value = TypeVar("Value")


def _jobs(context: click.Context, option: click.Parameter, jobs: int | None) -> int:
    from tooltap.daemon.system.processes import usable_cores

    return usable_cores() if jobs is None else jobs


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    callback=_jobs,
    metavar="N",
    help="How many processes share the work; 1: only this one.  [default: the cores that tooltap may use]",
)


@contextmanager
def worker_errors() -> Iterator[None]:
    """Turn the death of a worker into a click error."""
    from tooltap.daemon.system.workers import WorkerDiedError

    try:
        yield
    except WorkerDiedError as error:
        raise click.ClickException(str(error)) from None


def guarded_workers(
    work: Callable[[Item], Iterable[Value]], items: Sequence[Item], *, jobs: int, weigh: Callable[[Item], int]
) -> Workers[Item, Value]:
    """`Workers` whose streams are guarded as those of this process are: a spawned process begins with new ones."""
    from tooltap.daemon.system.workers import Workers

    return Workers(partial(_guarded, work), items, jobs=jobs, weigh=weigh)


def _guarded(work: Callable[[Item], Iterable[Value]], item: Item) -> Iterable[Value]:
    guard()
    return work(item)
