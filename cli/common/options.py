"""Options that commands share: `--dialect`, `--provider`, limits in bytes; and a hint at what a mistyped name meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Letter after a number in an option -> seconds."""

provider_option = click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completion.providers,
    help="The agent's name; overrides what its lines say.",
)


def dialect_option(text: str, *, check: bool) -> Callable[[F], F]:
    """Make `--dialect`. `check`: reject dialects that are not installed here. A daemon checks against its own."""
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


def spool_options(function: F) -> F:
    """Add the limits of the spool, which holds lines on disk while the daemon is away."""
    from tooltap.daemon.taps.delivery.outbox import SpoolLimits

    defaults = SpoolLimits._field_defaults
    for option, description in (
        ("--spool-total-bytes", "Limit of all spools on disk."),
        ("--spool-bytes", "Limit of one stream's spool on disk, which holds lines while the daemon is away."),
    ):
        function = bytes_option(option, defaults[_variable(option)], description)(function)
    return function


def bytes_option(option: str, default: int, description: str) -> Callable[[F], F]:
    """Make an option for a number of bytes, which can also be set by an environment variable."""
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


def name_hint(filters: dict[str, tuple[str, ...]]) -> str:
    """Return `; did you mean …?` for the first unknown tool or provider that resembles a known one, else an empty
    string."""
    from tooltap.normalizers.catalog.registry import agents
    from tooltap.normalizers.tools.registry import KNOWN_TOOLS

    known = {
        "tool": set(KNOWN_TOOLS),
        "provider": {agent.provider or name for name, agent in agents().items()},
    }
    unknown = ((name, one) for name in known for one in filters.get(name, ()) if one not in known[name])
    return next(filter(None, (did_you_mean(one, known[name]) for name, one in unknown)), "")
