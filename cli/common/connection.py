"""Talks to the daemon for commands: the `--socket` option, requests, and errors as one sentence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from tooltap.cli.common import completers
from tooltap.cli.common.options import dialect_option, provider_option
from tooltap.cli.common.suggestions import did_you_mean

__all__ = [
    "daemon_errors",
    "is_refused",
    "publisher_options",
    "request",
    "run_client",
    "socket_option",
    "wait_option",
    "waiting",
]

T = TypeVar("T")

USAGE_ERRORS = ("bad-frame", "unknown-dialect")
"""Codes of the daemon's errors that result from the command's own arguments."""

socket_option = click.option(
    "--socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The daemon's socket.  [default: $TOOLTAP_SOCKET, else tooltap.sock in the user's runtime directory]",
)

_WAIT = "tooltap.wait"


def _remember(context: click.Context, _: click.Parameter, seconds: float) -> None:
    context.meta[_WAIT] = seconds


wait_option = click.option(
    "--wait",
    type=click.FloatRange(min=0.0),
    default=0.0,
    metavar="SECONDS",
    callback=_remember,
    expose_value=False,
    help="How long to wait for a daemon that is not there yet.",
)
"""`request` and `waiting` know what was given."""


def publisher_options(function: Any) -> Any:
    """Add the options that describe a stream to the daemon when it is published."""
    for option in (
        click.option(
            "--mcp-server", "mcp_servers", multiple=True, metavar="NAME", help="The name of an MCP server of the agent."
        ),
        click.option(
            "--session",
            metavar="NAME",
            shell_complete=completers.sessions,
            help="The session's name until a line states its id.",
        ),
        provider_option,
        dialect_option("The format of the lines.", check=False),
    ):
        function = option(function)
    return function


@contextmanager
def daemon_errors() -> Iterator[None]:
    """Turn errors of the connection and of the daemon into click errors."""
    from tooltap.daemon.client.greeting import ConnectError, DaemonError, DisconnectedError

    try:
        yield
    except (ConnectError, DaemonError, DisconnectedError) as error:
        if isinstance(error, DaemonError) and error.code in USAGE_ERRORS:
            context = click.get_current_context(silent=True)
            raise click.UsageError(f"{error}{_meant(error.code, context)}", context) from None
        raise click.ClickException(str(error)) from None


def _meant(code: str, context: click.Context | None) -> str:
    if code != "unknown-dialect" or context is None:
        return ""
    from tooltap.normalizers.catalog.registry import dialects

    return did_you_mean(context.params["dialect"], dialects())


def is_refused(error: click.UsageError, key: str) -> bool:
    """Say whether a daemon of an earlier version does not know a key of the request."""
    return f"unknown field `{key}`" in error.message


def run_client(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine that uses the client."""
    import asyncio

    import anyio

    async def quietly() -> T:
        # anyio 4.16 prints "Exception in callback" on stderr if data arrives while a connection is being closed.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        return await work()

    with daemon_errors():
        return anyio.run(quietly)


def waiting() -> float:
    """Return the seconds that `--wait` gives a daemon to come."""
    context = click.get_current_context(silent=True)
    seconds: float = 0.0 if context is None else context.meta.get(_WAIT, 0.0)
    return seconds


def request(socket: Path | None, op: str, **arguments: Any) -> Any:
    """Send one request to the daemon and return its result."""
    from tooltap.daemon.client.blocking import ask

    with daemon_errors():
        return ask(op, path=socket, wait=waiting(), **arguments)
