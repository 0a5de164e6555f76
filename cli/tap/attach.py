"""`tooltap attach`: taps the event stream of a running server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Group, require_extra
from tooltap.cli.common.connection import socket_option
from tooltap.cli.common.options import spool_options
from tooltap.cli.common.printing import warn
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions

if TYPE_CHECKING:
    from tooltap.daemon.taps.delivery.tap import Tap

SILENCE = 90.0
"""Seconds without data after which a connection counts as dead. OpenCode 1.18 sends a heartbeat every 10 s, older
versions every 30 s."""


@click.group("attach", cls=Group, examples=("tooltap attach opencode http://127.0.0.1:4096",))
def command() -> None:
    """Tap the event stream of a running server."""


@command.command(
    "opencode",
    examples=(
        "tooltap attach opencode http://127.0.0.1:4096",
        "OPENCODE_SERVER_PASSWORD=secret tooltap attach opencode http://127.0.0.1:4096",
    ),
)
@click.argument("url")
@click.option(
    "--silence",
    type=click.FloatRange(min=0, min_open=True),
    default=SILENCE,
    show_default=True,
    metavar="SECONDS",
    help="Reconnect after this time without any data, including heartbeats.",
)
@spool_options
@socket_option
def opencode(url: str, silence: float, spool_bytes: int, spool_total_bytes: int, socket: Path | None) -> None:
    """Tap the OpenCode server at URL, such as http://127.0.0.1:4096.

    The command waits for the server, and reconnects when it comes back. Events sent in between are lost, and the stream
    reports the loss. The password is read from OPENCODE_SERVER_PASSWORD. SIGTERM and Ctrl-C end the command; the server
    keeps running: its sessions are suspended, and continue when you attach it again.
    """
    with require_extra("attach"):
        from tooltap.daemon.taps.attach import AttachError, Server, attach, stream_of
    from tooltap.daemon.client.discovery import find_socket
    from tooltap.daemon.system.foreground import run_until_stopped
    from tooltap.daemon.system.paths import spool_path
    from tooltap.daemon.taps.attach import resume_tap
    from tooltap.normalizers.catalog.registry import agents, product_names

    kind = agents()["opencode"].server
    assert kind is not None
    server = Server(product_names()["opencode"], kind, url)
    taps: list[Tap] = []

    async def open_tap() -> tuple[Tap, bool]:
        limits = SpoolLimits(spool_path(), spool_bytes, spool_total_bytes)
        options = StreamOptions(stream_of(server), kind.dialect)
        tap, is_resumed = await resume_tap(options, socket or find_socket(), limits)
        taps.append(tap)
        return tap, is_resumed

    try:
        run_until_stopped(lambda on_stop: attach(server, open_tap, on_stop, silence=silence))
    except AttachError as error:
        raise click.ClickException(str(error)) from None
    finally:
        for tap in taps:
            if (problem := tap.finish(suspend=True)) is not None:
                warn(problem)
