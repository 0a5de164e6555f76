"""`tooltap attach`: taps a running server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Group, require_extra
from tooltap.cli.common.connection import socket_option
from tooltap.cli.common.options import spool_options
from tooltap.cli.common.printing import warn
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tooltap.daemon.system.foreground import OnStop
    from tooltap.daemon.taps.delivery.delivery import WriteToAgent
    from tooltap.daemon.taps.delivery.tap import Tap

SILENCE = 90.0
"""Seconds without data after which a connection counts as dead. OpenCode 1.18 sends a heartbeat every 10 s, older
versions every 30 s."""


@click.group("attach", cls=Group, examples=("tooltap attach opencode http://127.0.0.1:4096", "tooltap attach codex"))
def command() -> None:
    """Tap the events of a running server."""


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

    You can answer what its sessions ask: what you decide is posted to the server, with the same password.
    """
    with require_extra("attach"):
        from tooltap.daemon.taps.attach import NOTED, Poster, Server, attach, stream_of
    from tooltap.daemon.client.discovery import find_socket
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
        poster = Poster(server, limits.directory / f"{options.stream}{NOTED}")
        tap, is_resumed = await resume_tap(options, socket or find_socket(), limits, poster.post)
        taps.append(tap)
        return tap, is_resumed

    _run(lambda on_stop: attach(server, open_tap, on_stop, silence=silence), taps)


@command.command("codex", examples=("tooltap attach codex", "tooltap attach codex unix:/tmp/codex.sock"))
@click.argument("server", metavar="[unix:PATH]", required=False)
@spool_options
@socket_option
def codex(server: str | None, spool_bytes: int, spool_total_bytes: int, socket: Path | None) -> None:
    """Join the sessions of Codex' terminal, at the socket of its app-server.

    Codex 0.169 and newer start that server by themselves; its socket is in CODEX_HOME, or ~/.codex. The command waits
    for it, joins every session that is open there, and reconnects. Events sent in between are lost, and the stream
    reports the loss. SIGTERM and Ctrl-C end the command; Codex keeps running.

    You can answer what the sessions ask, while Codex' own dialog is open: the first answer counts.
    """
    with require_extra("attach"):
        from tooltap.daemon.taps.app_server import Instance, follow_app_server
    from tooltap.daemon.client.discovery import find_socket
    from tooltap.daemon.system.paths import spool_path
    from tooltap.daemon.taps.attach import NOTED, resume_tap
    from tooltap.normalizers.catalog.registry import agents, product_names

    kind = agents()["codex"].control
    assert kind is not None
    limits = SpoolLimits(spool_path(), spool_bytes, spool_total_bytes)
    taps: list[Tap] = []

    async def open_tap(instance: Instance, write: WriteToAgent) -> tuple[Tap, bool]:
        options = StreamOptions(instance.stream, kind.dialect)
        tap, is_resumed = await resume_tap(options, socket or find_socket(), limits, write)
        taps[:] = [tap]
        return tap, is_resumed

    path = _control_socket(kind.below) if server is None else _unix_path(server)
    noted = limits.directory / f"attach-codex{NOTED}"
    _run(lambda on_stop: follow_app_server(product_names()["codex"], path, noted, open_tap, on_stop), taps)


def _run(follow: Callable[[OnStop], Awaitable[None]], taps: list[Tap]) -> None:
    """Follow a server until the command is stopped; then suspend the stream, because the server continues. `taps`: the
    open ones, meanwhile changed by `follow`. Raises `click.ClickException`."""
    from tooltap.daemon.system.foreground import run_until_stopped
    from tooltap.daemon.taps.attach import AttachError

    try:
        run_until_stopped(follow)
    except AttachError as error:
        raise click.ClickException(str(error)) from None
    finally:
        for tap in taps:
            if (problem := tap.finish(suspend=True)) is not None:
                warn(problem)


def _control_socket(below: str) -> Path:
    """Return the path of Codex' socket in its folder."""
    from tooltap.daemon.taps.follow.stores import homes
    from tooltap.normalizers.catalog.registry import stores

    return homes(stores()["codex"][0], os.environ)[0] / below


def _unix_path(server: str) -> Path:
    """Return the path in `unix:PATH`. Raises `click.BadParameter`."""
    path = server.removeprefix("unix:")
    if path == server or not path:
        raise click.BadParameter(f"{server!r} is not the address of a Unix socket, such as unix:/tmp/codex.sock")
    return Path(path)
