"""`tooltap serve`: runs the daemon, and inspects and stops a running one."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common.commands import Group
from tooltap.cli.common.completers import followed_agents
from tooltap.cli.common.connection import request, socket_option
from tooltap.cli.common.optional_dependencies import require_extra
from tooltap.cli.common.statistics import describe_daemon

__all__ = ["command"]

STOP_TIMEOUT = 30.0
POLL = 0.02


@click.group(
    "serve",
    cls=Group,
    invoke_without_command=True,
    examples=(
        "tooltap serve",
        "tooltap serve --follow claude,codex,gemini --backfill 7d",
        "tooltap serve --journal sqlite:/var/tmp/tooltap.db --durability power",
        "tooltap serve --journal nats://127.0.0.1:4222/team",
    ),
)
@click.option(
    "--journal",
    metavar="sqlite:PATH|nats://…",
    help="Where events are stored.  [default: a file in the user's data directory]",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file; options override it.  [default: tooltap.toml in the user's configuration directory]",
)
@click.option(
    "--durability",
    type=click.Choice(["process", "power"]),
    help="What acknowledged lines survive: a crash of the daemon, or a power failure.",
)
@click.option(
    "--follow",
    metavar="AGENT,…",
    shell_complete=followed_agents,
    help="Follow the session files of these agents: claude, codex, gemini.",
)
@click.option("--backfill", metavar="all|none|AGE", help="Which older sessions to read as well.  [default: 24h]")
@click.option(
    "--web",
    is_flag=False,
    flag_value="",
    metavar="[HOST:PORT]",
    help="Serve browsers and HTTP clients too, and print the link with their access token.  [default: 127.0.0.1:8422]",
)
@click.option("--allow-remote", is_flag=True, help="Allow a HOST for --web that other machines can reach.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="The lowest level that is logged."
)
@click.option("--trace-file-bytes", type=int, metavar="N", help="Start a new trace file when one reaches this size.")
@click.option(
    "--trace-total-bytes",
    type=int,
    metavar="N",
    help="Remove the oldest trace files when all together exceed this size.",
)
@socket_option
@click.pass_context
def command(
    context: click.Context,
    journal: str | None,
    config: Path | None,
    durability: str | None,
    follow: str | None,
    backfill: str | None,
    web: str | None,
    allow_remote: bool,
    log_level: str | None,
    trace_file_bytes: int | None,
    trace_total_bytes: int | None,
    socket: Path | None,
) -> None:
    """Run the daemon: tap, journal, serve.

    It runs in the foreground until SIGTERM, Ctrl-C or `tooltap serve stop`, and logs to standard error.
    """
    context.obj = socket
    if context.invoked_subcommand is not None:
        return
    from tooltap.daemon.app import run
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.system.paths import config_path

    if config is None and (usual := config_path()).exists():
        config = usual
    load = partial(
        load_config,
        config,
        socket=None if socket is None else str(socket),
        journal=journal,
        durability=durability,
        follow=_follow(follow, backfill),
        web=_web(web, allow_remote),
        log_level=log_level,
        trace_file_bytes=trace_file_bytes,
        trace_total_bytes=trace_total_bytes,
    )
    try:
        settings = load()
        if settings.web.enabled:
            with require_extra("web"):
                import tooltap.daemon.web.server  # noqa: F401
        run(settings, reload=load if config is not None else None, show_link=_print_link)
    except ConfigError as error:
        raise click.UsageError(str(error), context) from None
    except (ListenError, JournalError) as error:
        raise click.ClickException(str(error)) from None


def _follow(agents: str | None, backfill: str | None) -> dict[str, Any]:
    settings = {} if agents is None else {"agents": [name.strip() for name in agents.split(",") if name.strip()]}
    return settings if backfill is None else {**settings, "backfill": backfill}


def _web(address: str | None, allow_remote: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {} if address is None else {"enabled": True}
    return settings | ({"listen": address} if address else {}) | ({"allow_remote": True} if allow_remote else {})


def _print_link(link: str) -> None:
    """Print the link. If standard output is closed, the daemon continues; `serve link` prints the link again."""
    try:
        click.echo(link)
    except OSError:
        pass


@command.command("link", examples=("tooltap serve link",))
@socket_option
@click.pass_obj
def link(group_socket: Path | None, socket: Path | None) -> None:
    """Print the link, with its access token, for a browser."""
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.web.http.token import read_token

    web = request(socket or group_socket, "stats").get("web")
    if web is None:
        raise click.ClickException("the daemon does not serve browsers; start it with: tooltap serve --web")
    try:
        click.echo(f"{web['url']}/?token={read_token(Path(web['tokenFile']))}")
    except ListenError as error:
        raise click.ClickException(str(error)) from None


@command.command("status", examples=("tooltap serve status",))
@socket_option
@click.pass_obj
def status(group_socket: Path | None, socket: Path | None) -> None:
    """Show whether a daemon is running; exit code 1 if none is."""
    click.echo(describe_daemon(request(socket or group_socket, "stats")))


@command.command(
    "stop",
    examples=(
        "tooltap serve stop",
        "tooltap serve stop --socket /tmp/tooltap.sock",
    ),
)
@socket_option
@click.pass_obj
def stop(group_socket: Path | None, socket: Path | None) -> None:
    """Stop the daemon, and wait until it has stopped."""
    from tooltap.daemon.system.paths import socket_path

    path = socket or group_socket or socket_path()
    pid = request(path, "stats")["pid"]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while path.exists():  # the daemon removes its socket last
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"the daemon (pid {pid}) has not stopped after {STOP_TIMEOUT:.0f} s; it may still be stopping"
            )
        time.sleep(POLL)
