"""`--jobs`: how many processes share the work on many recordings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["jobs_option", "worker_errors"]


def _jobs(context: click.Context, option: click.Parameter, jobs: int | None) -> int:
    from tooltap.daemon.system.workers import usable_cores

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
