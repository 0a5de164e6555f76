"""`tooltap gateway`: a reverse proxy in front of a language model server that taps requests and responses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Group, require_extra
from tooltap.cli.common.connection import socket_option
from tooltap.cli.common.options import bytes_option, spool_options
from tooltap.cli.common.printing import say
from tooltap.daemon.taps.delivery.outbox import MAX_BYTES, SpoolLimits
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES

if TYPE_CHECKING:
    from tooltap.daemon.system.tcp import Address

LISTEN = "127.0.0.1:4010"
UNIX = "unix:"
CONVERSATIONS = 64
IDLE = 900.0
CONNECTIONS = 2_048
CLIENT_CONNECTIONS = 1_024


key_file_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file with the key for other users; created if there is none. Default: in the user's data directory.",
)


@click.group("gateway", cls=Group, examples=("tooltap gateway openai --upstream http://127.0.0.1:11434/v1",))
def command() -> None:
    """Forward requests to a language model server, and tap them."""


@command.command(
    "openai",
    examples=(
        "tooltap gateway openai --upstream http://127.0.0.1:11434/v1",
        "tooltap gateway openai --upstream https://api.openai.com/v1 --listen 127.0.0.1:4020",
        "tooltap gateway openai --upstream https://api.anthropic.com",
        "tooltap gateway openai --upstream http://127.0.0.1:11434/v1 --listen unix:~/models.sock",
    ),
)
@click.option("--upstream", required=True, metavar="URL", help="The server's base URL, as clients use it.")
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT|unix:PATH",
    help="Where to listen; port 0 picks a free port. Other users cannot use a Unix socket.",
)
@click.option("--allow-remote", is_flag=True, help="Allow a HOST that other machines can reach.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Another host name that clients may use.")
@key_file_option
@click.option(
    "--provider",
    metavar="NAME",
    help="The provider in events; default: the agent that asks, else derived from the server or model.",
)
@click.option(
    "--conversations",
    type=click.IntRange(min=1),
    default=CONVERSATIONS,
    show_default=True,
    metavar="N",
    help="Maximum of open conversations; beyond it the least recently used one is ended.",
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    default=IDLE,
    show_default=True,
    metavar="SECONDS",
    help="End a conversation after this time without traffic.",
)
@bytes_option("--memory-bytes", MAX_BYTES, "Memory for the lines of one conversation that are not sent yet.")
@bytes_option(
    "--line-bytes",
    MAX_LINE_BYTES,
    "Longest request, response, or chunk of a streamed response; longer ones are truncated.",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=CONNECTIONS,
    show_default=True,
    metavar="N",
    help="Maximum of connections; beyond it, a new client replaces a connection of the client that has the most.",
)
@click.option(
    "--client-connections",
    type=click.IntRange(min=1),
    default=CLIENT_CONNECTIONS,
    show_default=True,
    metavar="N",
    help="Maximum of connections of one user of this machine, or of one remote address.",
)
@spool_options
@socket_option
def openai(
    upstream: str,
    listen: str,
    allow_remote: bool,
    hosts: tuple[str, ...],
    key_file: Path | None,
    provider: str | None,
    conversations: int,
    idle: float,
    memory_bytes: int,
    line_bytes: int,
    connections: int,
    client_connections: int,
    spool_bytes: int,
    spool_total_bytes: int,
    socket: Path | None,
) -> None:
    """Tap a model server with a local reverse proxy.

    The path of a request is appended to the URL of --upstream; if both have the version, as in /v1, it is sent once.
    Requests and responses pass unchanged, with or without a daemon. Chat Completions, Responses, Anthropic's Messages
    and the Gemini API are tapped, each conversation as its own stream. Keys are not recorded. Programs of other users
    and machines need the key that `tooltap gateway key` prints, in the URL: for http://127.0.0.1:4010/v1 it is
    http://127.0.0.1:4010/key-KEY/v1. SIGTERM and Ctrl-C end the command.
    """
    from tooltap.daemon.system.listener import ListenError

    place = _place(listen)
    with require_extra("gateway"):
        import brotli  # type: ignore[import-untyped]  # noqa: F401 -- else it is missed when an answer needs it

        from tooltap.daemon.taps.gateway.server import GatewayError, GatewayOptions, serve_gateway
    from tooltap.daemon.client.discovery import find_socket
    from tooltap.daemon.system.foreground import run_until_stopped
    from tooltap.daemon.system.paths import spool_path

    options = GatewayOptions(
        upstream=upstream,
        address=place,
        allow_remote=allow_remote,
        hosts=hosts,
        key=None if isinstance(place, Path) else _key(key_file),
        socket=socket or find_socket(),
        spool=SpoolLimits(spool_path(), spool_bytes, spool_total_bytes),
        provider=provider,
        conversations=conversations,
        idle=idle,
        memory_bytes=memory_bytes,
        line_bytes=line_bytes,
        connections=connections,
        client_connections=client_connections,
    )
    try:
        run_until_stopped(lambda on_stop: serve_gateway(options, on_stop))
    except (GatewayError, ListenError) as error:
        raise click.ClickException(str(error)) from None


@command.command("key", examples=("tooltap gateway key",))
@key_file_option
def key(key_file: Path | None) -> None:
    """Print the key that programs of other users and machines need."""
    say(_key(key_file))


def _key(path: Path | None) -> str:
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.system.paths import gateway_key_path
    from tooltap.daemon.web.http.token import load_token

    try:
        return load_token(path or gateway_key_path())
    except ListenError as error:
        raise click.ClickException(str(error)) from None


def _place(listen: str) -> Address | Path:
    from tooltap.daemon.system.tcp import parse_address

    if listen.startswith(UNIX) and listen != UNIX:
        return Path(listen.removeprefix(UNIX)).expanduser()
    try:
        return parse_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen is unix:PATH, or {error}") from None
