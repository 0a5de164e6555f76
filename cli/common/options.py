"""`--dialect` and `--provider`, which many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

provider_option = click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completion.providers,
    help="The agent's name; overrides what its lines say.",
)


def dialect_option(text: str, *, check: bool) -> Callable[[F], F]:
    """`check`: reject dialects that are not installed here. A daemon checks against its own."""
    return click.option(
        "--dialect",
        default="auto",
        show_default=True,
        metavar="NAME",
        callback=_check if check else None,
        shell_complete=completion.dialects,
        help=text,
    )


def _check(context: click.Context, option: click.Parameter, name: str) -> str:
    from tooltap.normalizers.catalog.registry import UnknownDialectError, dialects, parser_class

    try:
        return name if name == "auto" else parser_class(name).dialect
    except UnknownDialectError as error:
        raise click.BadParameter(f"{error}{did_you_mean(name, dialects())}", context, option) from None
