"""Options that mean the same in many commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tooltap.cli.common import completing

__all__ = ["dialect_option", "provider_option"]

F = TypeVar("F", bound=Callable[..., Any])

provider_option = click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completing.providers,
    help="The agent, where its lines do not say, or say otherwise.",
)


def dialect_option(text: str, *, known_here: bool) -> Callable[[F], F]:
    """`known_here`: for lines that are read here; a daemon knows its own dialects."""
    return click.option(
        "--dialect",
        default="auto",
        show_default=True,
        metavar="NAME",
        callback=_known if known_here else None,
        shell_complete=completing.dialects,
        help=text,
    )


def _known(context: click.Context, option: click.Parameter, name: str) -> str:
    from tooltap.normalizers.core.registry import UnknownDialectError, parser_class

    try:
        return name if name == "auto" else parser_class(name).dialect
    except UnknownDialectError as error:
        raise click.BadParameter(str(error), context, option) from None
