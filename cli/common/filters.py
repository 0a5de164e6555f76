"""Options by which commands choose among sessions, calls, events and files, and how they print what they find.

Each function makes one option; its argument is what `--help` says of it. The options have the same names, values and
completion in all commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tooltap.cli.common import completion
from tooltap.cli.common.moments import Moment

F = TypeVar("F", bound=Callable[..., Any])


def agent_option(help: str) -> Callable[[F], F]:  # noqa: A002 -- click's word
    return click.option("--agent", multiple=True, metavar="NAME", shell_complete=completion.providers, help=help)


def project_option(text: str) -> Callable[[F], F]:
    return click.option("--project", multiple=True, metavar="DIR", help=text)


def host_option(text: str) -> Callable[[F], F]:
    """`text`: what is wanted of a host, such as "Sessions of"."""
    help_ = f'{text} this remote, by its name; "." is this machine. May be repeated.'
    return click.option("--host", multiple=True, metavar="NAME", shell_complete=completion.hosts, help=help_)


def tool_option(of: str) -> Callable[[F], F]:
    """`of`: what the tool is of, such as "Calls"."""
    text = f"{of} of this tool, by its canonical name or the agent's name for it. May be repeated."
    return click.option("--tool", multiple=True, metavar="NAME", shell_complete=completion.tools, help=text)


def session_option(of: str) -> Callable[[F], F]:
    """`of`: what is wanted of the session, such as "Events of"."""
    text = f'{of} this session: its id, the beginning of it, words of its title, or "last".'
    return click.option("--session", metavar="NAME", shell_complete=completion.sessions, help=text)


def time_options(since: str, until: str) -> Callable[[F], F]:
    """Make `--since` and `--until`. `since`: what `--help` says of it, without the examples."""
    return period_options((Moment(), Moment(is_end=True)), "WHEN", f"{since}: 2h, yesterday, 2026-11-24.", until)


def period_options(
    types: tuple[click.ParamType[int], click.ParamType[int]], metavar: str, since: str, until: str
) -> Callable[[F], F]:
    """Make `--since` and `--until`, and refuse a period that ends before it begins. `types`: of the two."""
    from_option, to_option = (
        click.option(name, type=kind, metavar=metavar, help=text, callback=_check_period)
        for name, kind, text in zip(("--since", "--until"), types, (since, until), strict=True)
    )
    return lambda function: from_option(to_option(function))


def _check_period(context: click.Context, option: click.Parameter, value: int | None) -> int | None:
    """Compare the option that is read second with the first."""
    bounds = {**context.params, option.name: value}
    since, until = bounds.get("since"), bounds.get("until")
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until is before --since", context)
    return value


def limit_option(default: int, text: str, *, most: int | None = None) -> Callable[[F], F]:
    return click.option("--limit", type=click.IntRange(1, most), default=default, show_default=True, help=text)


def json_option(text: str) -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=text)
