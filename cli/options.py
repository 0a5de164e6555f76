"""Options that several commands have, and the settings of which mean the same in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tooltap.cli import completing

__all__ = ["dialect_option", "known_dialect_option", "provider_option"]

F = TypeVar("F", bound=Callable[..., Any])

provider_option = click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completing.providers,
    help="The agent, where its lines do not say, or say otherwise.",
)


def dialect_option(text: str = "The format of the lines.", **more: Any) -> Callable[[F], F]:
    """For what goes to the daemon, which knows its own dialects."""
    return click.option(
        "--dialect",
        default="auto",
        show_default=True,
        metavar="NAME",
        shell_complete=completing.dialects,
        help=text,
        **more,
    )


def known_dialect_option(text: str) -> Callable[[F], F]:
    """For what is read here."""
    return dialect_option(text, callback=_known)


def _known(context: click.Context, option: click.Parameter, name: str) -> str:
    from tooltap.normalizers.registry import UnknownDialectError, parser_class

    try:
        return name if name == "auto" else parser_class(name).dialect
    except UnknownDialectError as error:
        raise click.BadParameter(str(error), context, option) from None
