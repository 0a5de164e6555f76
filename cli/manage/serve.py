"""`tooltap serve`: runs the daemon, and inspects and stops a running one."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from tooltap.cli.common.columns import print_table, say_wrapped
from tooltap.cli.common.commands import Choice, Group
from tooltap.cli.common.completion import followed_agents
from tooltap.cli.common.connection import ask_web, request, socket_option, web_token
from tooltap.cli.common.printing import at_terminal, say, say_json
from tooltap.cli.common.statistics import describe_daemon

STOP_TIMEOUT = 30.0
POLL = 0.02


@click.group(
    "serve",
    cls=Group,
    invoke_without_command=True,
    examples=(
        "tooltap serve",
        "tooltap serve --follow all --backfill 7d",
        "tooltap serve --follow claude,codex",
        "tooltap serve --journal sqlite:/var/tmp/tooltap.db --durability power",
        "tooltap serve --journal nats://127.0.0.1:4222/team",
        "tooltap serve --follow all --otlp http://127.0.0.1:4318",
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
    type=Choice(["process", "power"]),
    help="What acknowledged lines survive: a crash of the daemon, or a power failure.",
)
@click.option(
    "--follow",
    metavar="all|AGENT,…",
    shell_complete=followed_agents,
    help="Follow the sessions that all agents, or these agents, store.",
)
@click.option("--backfill", metavar="all|none|AGE", help="Which older sessions to read as well.  [default: 24h]")
@click.option(
    "--web",
    is_flag=False,
    flag_value="",
    metavar="[HOST:PORT]",
    help="Serve browsers and HTTP clients too; on a terminal, print a link to log in.  [default: 127.0.0.1:8422]",
)
@click.option(
    "--otlp",
    metavar="URL",
    help="Send turns, calls and requests as spans of OpenTelemetry, and metrics, to an address for OTLP over HTTP.",
)
@click.option("--otlp-content", is_flag=True, help="Send texts, and arguments and results of calls, with --otlp too.")
@click.option("--allow-remote", is_flag=True, help="Allow a HOST for --web that other machines can reach.")
@click.option(
    "--log-level", type=Choice(["debug", "info", "warning", "error"]), help="The lowest level that is logged."
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
    otlp: str | None,
    otlp_content: bool,
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
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.process import run
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
        otlp={**({} if otlp is None else {"url": otlp}), **({"content": True} if otlp_content else {})},
        log_level=log_level,
        trace_file_bytes=trace_file_bytes,
        trace_total_bytes=trace_total_bytes,
    )
    try:
        settings = load()
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


def _print_link(new_link: Callable[[], str]) -> None:
    """Print a link, if standard output is a terminal: a log would keep it, and `serve link` prints one at any time. If
    standard output is closed, the daemon continues."""
    try:
        if at_terminal():
            say(new_link())
    except (OSError, ValueError):
        pass


@command.command("link", examples=("tooltap serve link",))
@socket_option
@click.pass_obj
def link(group_socket: Path | None, socket: Path | None) -> None:
    """Print a link that logs a browser in, once, within a few minutes."""
    say(ask_web(socket or group_socket, "POST", "/api/logins")["link"])


@command.command(
    "token", examples=('echo "Authorization: Bearer $(tooltap serve token)" | curl -H@- 127.0.0.1:8422/api/stats',)
)
@socket_option
@click.pass_obj
def token(group_socket: Path | None, socket: Path | None) -> None:
    """Print the token that programs send over HTTP. It does not expire."""
    say(web_token(socket or group_socket))


@command.command("sessions", examples=("tooltap serve sessions",))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@socket_option
@click.pass_obj
def sessions(group_socket: Path | None, as_json: bool, socket: Path | None) -> None:
    """List the browsers that are logged in, most recently used first."""
    logins = ask_web(socket or group_socket, "GET", "/api/logins")["logins"]
    if as_json:
        for one in logins:
            say_json(json.dumps(one).encode())
        return
    columns = ("LOGIN", "BROWSER", "FROM", "SINCE", "LAST USED", "ENDS IF UNUSED")
    print_table(columns, [_login(one) for one in logins])


def _login(one: dict[str, Any]) -> list[object]:
    times = (datetime.fromtimestamp(one[key] / 1_000) for key in ("created", "used", "ends"))
    return [one["id"], one["browser"], one["address"], *(f"{time:%Y-%m-%d %H:%M}" for time in times)]


@command.command("revoke", examples=("tooltap serve revoke 7f3a90c2", "tooltap serve revoke --all"))
@click.argument("logins", nargs=-1, metavar="LOGIN...")
@click.option("--all", "all_of_them", is_flag=True, help="Log out every browser.")
@socket_option
@click.pass_obj
def revoke(group_socket: Path | None, logins: tuple[str, ...], all_of_them: bool, socket: Path | None) -> None:
    """Log browsers out. Pages that are open lose their connection at once.

    `serve sessions` lists the logins. Remove the token's file and restart the daemon to lock programs out, too.
    """
    if all_of_them == bool(logins):
        raise click.UsageError("name the logins to end, or give --all")
    path = socket or group_socket
    names = [one["id"] for one in ask_web(path, "GET", "/api/logins")["logins"]] if all_of_them else logins
    for name in names:
        ask_web(path, "DELETE", f"/api/logins/{quote(name, safe='')}")
        say(f"{name}: logged out")


@command.command("status", examples=("tooltap serve status",))
@socket_option
@click.pass_obj
def status(group_socket: Path | None, socket: Path | None) -> None:
    """Show whether a daemon is running; exit code 1 if none is."""
    for line in describe_daemon(request(socket or group_socket, "stats")):
        say_wrapped(line)


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
    statistics = request(socket or group_socket, "stats")
    path, pid = socket or group_socket or Path(statistics["socket"]), statistics["pid"]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while path.exists():  # the daemon removes its socket last
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"the daemon (pid {pid}) has not stopped after {STOP_TIMEOUT:.0f} s; it may still be stopping"
            )
        time.sleep(POLL)
