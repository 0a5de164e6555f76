"""`tooltap gateway`: a reverse proxy in front of a language model server that taps requests and responses."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.commands import Group
from tooltap.cli.common.connection import socket_option
from tooltap.cli.common.optional_dependencies import require_extra
from tooltap.cli.tap.spool_options import bytes_option, spool_options
from tooltap.daemon.taps.delivery.outbox import MAX_BYTES, SpoolLimits
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES

__all__ = ["command"]

LISTEN = "127.0.0.1:4010"
CONVERSATIONS = 64
IDLE = 900.0


@click.group("gateway", cls=Group, examples=("tooltap gateway openai --upstream http://127.0.0.1:11434/v1",))
def command() -> None:
    """Forward requests to a language model server, and tap them."""


@command.command(
    "openai",
    examples=(
        "tooltap gateway openai --upstream http://127.0.0.1:11434/v1",
        "tooltap gateway openai --upstream https://api.openai.com/v1 --listen 127.0.0.1:4020",
    ),
)
@click.option("--upstream", required=True, metavar="URL", help="The server's base URL, as clients use it.")
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen; port 0 picks a free port.",
)
@click.option("--allow-remote", is_flag=True, help="Allow a HOST that other machines can reach.")
@click.option("--provider", metavar="NAME", help="The provider named in the events.")
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
@spool_options
@socket_option
def openai(
    upstream: str,
    listen: str,
    allow_remote: bool,
    provider: str | None,
    conversations: int,
    idle: float,
    memory_bytes: int,
    line_bytes: int,
    spool_bytes: int,
    spool_total_bytes: int,
    socket: Path | None,
) -> None:
    """Tap an OpenAI-compatible server with a local reverse proxy.

    The path of a request is appended to the URL of --upstream. Requests and responses pass unchanged, with or without a
    daemon. Chat Completions and Responses are tapped, each conversation as its own stream. Keys are not recorded.
    SIGTERM and Ctrl-C end the command.
    """
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.system.tcp import parse_address

    try:
        address = parse_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen is {error}") from None
    with require_extra("gateway"):
        from tooltap.daemon.taps.gateway.server import GatewayError, GatewayOptions, serve_gateway
    from tooltap.daemon.system.foreground import run_until_stopped
    from tooltap.daemon.system.paths import socket_path, spool_path

    options = GatewayOptions(
        upstream=upstream,
        address=address,
        allow_remote=allow_remote,
        socket=socket or socket_path(),
        spool=SpoolLimits(spool_path(), spool_bytes, spool_total_bytes),
        provider=provider,
        conversations=conversations,
        idle=idle,
        memory_bytes=memory_bytes,
        line_bytes=line_bytes,
    )
    try:
        run_until_stopped(lambda on_stop: serve_gateway(options, on_stop))
    except (GatewayError, ListenError) as error:
        raise click.ClickException(str(error)) from None
