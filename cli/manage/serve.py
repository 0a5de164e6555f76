"""`tooltap serve`: the daemon, and what it takes to look at and stop one that runs."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common.commands import Group
from tooltap.cli.common.completing import followed
from tooltap.cli.common.connection import ask, socket_option
from tooltap.cli.common.extras import needs_extra

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
    "--journal", metavar="sqlite:PATH|nats://…", help="Where events are kept.  [default: in the user's data directory]"
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file; flags win over it.  [default: tooltap.toml in the user's configuration directory]",
)
@click.option("--durability", type=click.Choice(["process", "power"]), help="What acknowledged lines survive.")
@click.option(
    "--follow",
    metavar="AGENT,…",
    shell_complete=followed,
    help="Follow the session files of these: claude, codex, gemini.",
)
@click.option("--backfill", metavar="all|none|AGE", help="Which older sessions to read as well.  [default: 24h]")
@click.option(
    "--web",
    is_flag=False,
    flag_value="",
    metavar="[HOST:PORT]",
    help="Serve browsers, and programs over HTTP, too; prints the link that lets them in.  [default: 127.0.0.1:8422]",
)
@click.option("--allow-remote", is_flag=True, help="Allow a HOST for --web that other machines can reach.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="How much is logged.")
@click.option("--trace-file-bytes", type=int, metavar="N", help="Begin a new trace file when one is this long.")
@click.option("--trace-total-bytes", type=int, metavar="N", help="Remove the oldest traces when all are longer.")
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

    It stays in the foreground until SIGTERM, Ctrl-C or `tooltap serve stop`, and logs to standard error.
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
            with needs_extra("web"):
                import tooltap.daemon.web.server  # noqa: F401
        run(settings, reload=load if config is not None else None, show_link=_show)
    except ConfigError as error:
        raise click.UsageError(str(error), context) from None
    except (ListenError, JournalError) as error:
        raise click.ClickException(str(error)) from None


def _follow(agents: str | None, backfill: str | None) -> dict[str, Any]:
    given = {} if agents is None else {"agents": [name.strip() for name in agents.split(",") if name.strip()]}
    return given if backfill is None else {**given, "backfill": backfill}


def _web(address: str | None, allow_remote: bool) -> dict[str, Any]:
    given: dict[str, Any] = {} if address is None else {"enabled": True}
    return given | ({"listen": address} if address else {}) | ({"allow_remote": True} if allow_remote else {})


def _show(link: str) -> None:
    """Whoever does not want to read it has `serve link`; the daemon goes on."""
    try:
        click.echo(link)
    except OSError:
        pass


@command.command("link", examples=("tooltap serve link",))
@socket_option
@click.pass_obj
def link(outer: Path | None, socket: Path | None) -> None:
    """Print the link that lets a browser in."""
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.web.http.token import read_token

    web = ask(socket or outer, "stats").get("web")
    if web is None:
        raise click.ClickException("the daemon does not serve browsers; start it with: tooltap serve --web")
    try:
        click.echo(f"{web['url']}/?token={read_token(Path(web['tokenFile']))}")
    except ListenError as error:
        raise click.ClickException(str(error)) from None


@command.command("status", examples=("tooltap serve status",))
@socket_option
@click.pass_obj
def status(outer: Path | None, socket: Path | None) -> None:
    """Say whether a daemon runs; exit code 1 if none does."""
    from tooltap.cli.read.stats import summary

    click.echo(summary(ask(socket or outer, "stats")))


@command.command(
    "stop",
    examples=(
        "tooltap serve stop",
        "tooltap serve stop --socket /tmp/tooltap.sock",
    ),
)
@socket_option
@click.pass_obj
def stop(outer: Path | None, socket: Path | None) -> None:
    """Stop the daemon and wait until it has."""
    from tooltap.daemon.system.paths import socket_path

    place = socket or outer or socket_path()
    pid = ask(place, "stats")["pid"]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while place.exists():  # the last thing the daemon takes away
        if time.monotonic() > deadline:
            raise click.ClickException(f"the daemon (pid {pid}) does not stop")
        time.sleep(POLL)
