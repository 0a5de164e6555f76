"""What the commands that talk to the daemon have in common: its socket, and its errors in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from tooltap.cli.common import completing
from tooltap.cli.common.options import dialect_option, provider_option

__all__ = ["ask", "in_words", "socket_option", "stream_options", "talk"]

T = TypeVar("T")

ASKED_WRONGLY = ("bad-frame", "unknown-dialect")
"""Errors of the daemon that the command's own arguments have led to."""

socket_option = click.option(
    "--socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The daemon's socket.  [default: $TOOLTAP_SOCKET, else tooltap.sock in the user's runtime directory]",
)


def stream_options(function: Any) -> Any:
    """Adds what a publisher tells the daemon of its stream."""
    for option in (
        click.option("--mcp-server", "mcp_servers", multiple=True, metavar="NAME", help="An MCP server of the agent."),
        click.option(
            "--session",
            metavar="NAME",
            shell_complete=completing.sessions,
            help="A name for the session until its own id is seen.",
        ),
        provider_option,
        dialect_option("The format of the lines.", known_here=False),
    ):
        function = option(function)
    return function


@contextmanager
def in_words() -> Iterator[None]:
    """What goes wrong between us and the daemon becomes one sentence."""
    from tooltap.daemon.client.connection import ConnectError, DaemonError, DisconnectedError

    try:
        yield
    except (ConnectError, DaemonError, DisconnectedError) as error:
        if isinstance(error, DaemonError) and error.code in ASKED_WRONGLY:
            raise click.UsageError(str(error), click.get_current_context(silent=True)) from None
        raise click.ClickException(str(error)) from None


def talk(work: Callable[[], Awaitable[T]]) -> T:
    """Run a conversation with the daemon."""
    import asyncio

    import anyio

    async def quietly() -> T:
        # anyio 4.16: data that comes at the moment a connection is closed is an "Exception in callback" on stderr.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        return await work()

    with in_words():
        return anyio.run(quietly)


def ask(socket: Path | None, op: str, **arguments: Any) -> Any:
    """The result of one request."""
    from tooltap.daemon.client.connection import request

    return talk(lambda: request(op, path=socket, **arguments))
