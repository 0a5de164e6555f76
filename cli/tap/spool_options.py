"""Options that bound how many bytes are buffered on disk or in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tooltap.daemon.taps.delivery.outbox import SpoolLimits

F = TypeVar("F", bound=Callable[..., Any])


def spool_options(function: F) -> F:
    """Add the limits of the spool, which holds lines on disk while the daemon is away."""
    defaults = SpoolLimits._field_defaults
    for option, description in (
        ("--spool-total-bytes", "Limit of all spools on disk."),
        ("--spool-bytes", "Limit of one stream's spool on disk, which holds lines while the daemon is away."),
    ):
        function = bytes_option(option, defaults[_variable(option)], description)(function)
    return function


def bytes_option(option: str, default: int, description: str) -> Callable[[F], F]:
    """A number of bytes that can also be set by an environment variable."""
    return click.option(
        option,
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        envvar=f"TOOLTAP_{_variable(option).upper()}",
        show_envvar=True,
        metavar="N",
        help=description,
    )


def _variable(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
