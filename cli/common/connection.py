"""Requests of commands to the daemon: over its socket, with errors as one sentence, and over HTTP with its token."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import did_you_mean
from tooltap.cli.common.options import dialect_option, provider_option
from tooltap.cli.common.printing import warn
from tooltap.daemon.formats import counted

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
"""`--wait`. Commands do not get its value as a parameter; `waiting` returns it, and `request` uses it."""


def publisher_options(function: Any) -> Any:
    """Add the options that describe a stream to the daemon when it is published."""
    for option in (
        click.option(
            "--mcp-server", "mcp_servers", multiple=True, metavar="NAME", help="The name of an MCP server of the agent."
        ),
        click.option(
            "--session",
            metavar="NAME",
            shell_complete=completion.sessions,
            help="The session's name until a line states its id.",
        ),
        provider_option,
        dialect_option("The format of the lines.", check=False),
    ):
        function = option(function)
    return function


class AlreadyAnsweredError(click.ClickException):
    """Another answer was first; the message says whose, and when."""

    exit_code = 3


@contextmanager
def daemon_errors() -> Iterator[None]:
    """Turn errors of the connection and of the daemon into click errors."""
    from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError

    try:
        yield
    except (ConnectError, DaemonError, DisconnectedError) as error:
        if isinstance(error, DaemonError) and error.code in USAGE_ERRORS:
            context = click.get_current_context(silent=True)
            raise click.UsageError(f"{error}{_meant(error.code, context)}", context) from None
        if isinstance(error, DaemonError) and error.code == "already-answered":
            raise AlreadyAnsweredError(str(error)) from None
        raise click.ClickException(str(error)) from None


def _meant(code: str, context: click.Context | None) -> str:
    if code != "unknown-dialect" or context is None:
        return ""
    from tooltap.normalizers.catalog.registry import dialects

    return did_you_mean(context.params["dialect"], dialects())


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
    """Return how many seconds `--wait` allows for a daemon to start."""
    context = click.get_current_context(silent=True)
    seconds: float = 0.0 if context is None else context.meta.get(_WAIT, 0.0)
    return seconds


def request(socket: Path | None, op: str, **arguments: Any) -> Any:
    """Send one request to the daemon and return its result."""
    from tooltap.daemon.client.blocking import ask

    with daemon_errors():
        return ask(op, path=socket, wait=waiting(), **arguments)


def warn_of_unread(socket: Path | None) -> None:
    """Say that an answer is incomplete, while the daemon reads the session files that were there before its start."""
    backfill = request(socket, "stats", part="following").get("following", {}).get("backfill", {"complete": True})
    if not backfill["complete"]:
        warn(
            f"{backfill['filesDone']:,} of {counted(backfill['files'], 'session file')} are read so far: this is not"
            " everything yet"
        )


WEB_TIMEOUT = 10.0
"""Seconds for a reply over HTTP."""


def web_token(socket: Path | None) -> str:
    """Return the HTTP token of the daemon at this socket."""
    return _token(_web(socket))


def ask_web(socket: Path | None, method: str, path: str) -> Any:
    """Send an HTTP request to the daemon at this socket. It bypasses HTTP proxies, which would learn the token."""
    from http.client import HTTPConnection, HTTPException

    web = _web(socket)
    where = urlsplit(web["url"])
    connection = HTTPConnection(where.hostname or "", where.port, timeout=WEB_TIMEOUT)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {_token(web)}"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError) as error:
        raise click.ClickException(f"the daemon does not answer at {web['url']}: {error}") from None
    finally:
        connection.close()
    if response.status >= 400:
        raise click.ClickException(answer["error"]["message"])
    return answer


def _web(socket: Path | None) -> dict[str, Any]:
    web: dict[str, Any] | None = request(socket, "stats", part="summary").get("web")
    if web is None:
        raise click.ClickException("the daemon does not serve browsers; start it with: tooltap serve --web")
    return web


def _token(web: dict[str, Any]) -> str:
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.web.http.token import read_token

    try:
        return read_token(Path(web["tokenFile"]))
    except ListenError as error:
        raise click.ClickException(str(error)) from None
