"""`tooltap service`: the daemon as a service of systemd's user manager."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Group

if TYPE_CHECKING:
    from tooltap.daemon.system.brief_run import Printed

__all__ = ["command"]

TIMEOUT = 30.0
"""Seconds for systemd to do what it is asked."""
LINUX_ONLY = "there is no systemd on this system; have it start `tooltap serve` at login by its own means"
PATHS = ("config", "socket", "journal")
"""Options of `serve` that are places on disk, or may be."""


@click.group(
    "service",
    cls=Group,
    examples=("tooltap service install -- --follow claude,codex,gemini", "tooltap service status"),
)
def command() -> None:
    """Have systemd start the daemon.

    It becomes a service of your own user manager, that is started when you log in, and again if it fails.
    """


@command.command(
    "install",
    context_settings={"ignore_unknown_options": True},
    examples=(
        "tooltap service install",
        "tooltap service install -- --follow claude,codex,gemini --backfill 7d",
        "tooltap service install --print -- --journal sqlite:/var/tmp/tooltap.db",
    ),
)
@click.option("--print", "only_print", is_flag=True, help="Print the unit, and do nothing.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTION...]")
def install(only_print: bool, options: tuple[str, ...]) -> None:
    """Write the unit, and have systemd start it at every login.

    Options behind `--` are those of `tooltap serve`; installing anew replaces them. The service gets this installation
    of tooltap, and of the environment what says where things are (TOOLTAP_SOCKET, HAPPIER_STACK_TOOL_TRACE, CODEX_HOME
    and so on).
    """
    from tooltap.daemon.system.systemd import NAME, is_ours, unit, unit_path

    _check(options)
    text = unit([*_this_program(), "serve", *options], os.environ)
    if only_print:
        click.echo(text, nl=False)
        return
    if sys.platform == "darwin":
        raise click.ClickException(LINUX_ONLY)
    path = unit_path()
    if path.exists() and not is_ours(path):
        raise click.ClickException(f"{path} was not written by tooltap: move it away first")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    click.echo(f"wrote {path}")
    if _tell_systemd(["daemon-reload"], ["enable", NAME]):
        click.echo(f"start it now: systemctl --user restart {NAME}")
        click.echo("have it run without a login, too: loginctl enable-linger")


@command.command("uninstall", examples=("tooltap service uninstall",))
def uninstall() -> None:
    """Stop the service, and remove its unit. The journal stays."""
    from tooltap.daemon.system.systemd import NAME, is_ours, unit_path

    path = unit_path()
    if not path.exists():
        click.echo(f"there is no {path}")
        return
    if not is_ours(path):
        raise click.ClickException(f"{path} was not written by tooltap, and stays")
    stopped = _tell_systemd(["disable", "--now", NAME])
    path.unlink()
    click.echo(f"removed {path}")
    if stopped:
        _tell_systemd(["daemon-reload"])


@command.command("status", examples=("tooltap service status",))
@click.pass_context
def status(context: click.Context) -> None:
    """Say whether the service is installed and runs; exit code 1 if it does not."""
    from tooltap.daemon.system.systemd import NAME, ask_systemctl, unit_path

    path = unit_path()
    click.echo(f"unit: {path if path.exists() else 'none; write it with `tooltap service install`'}")
    active = ask_systemctl("is-active", NAME, timeout=TIMEOUT)
    enabled = ask_systemctl("is-enabled", NAME, timeout=TIMEOUT)
    click.echo(f"now: {_state(active)}")
    click.echo(f"at login: {_state(enabled)}")
    context.exit(0 if active is not None and active.code == 0 else 1)


def _state(answer: Printed | None) -> str:
    """A word; where systemd does not answer with one, why."""
    return "unknown, there is no systemd that could be asked" if answer is None else " ".join(answer.text.split())


def _tell_systemd(*orders: list[str]) -> bool:
    """Whether it has done all; where not, it is said what to type."""
    from tooltap.daemon.system.systemd import ask_systemctl

    for order in orders:
        answer = ask_systemctl(*order, timeout=TIMEOUT)
        if answer is None or answer.code != 0:
            reason = "no systemd runs here" if answer is None else _state(answer) or "systemctl does not answer"
            commands = " && ".join(shlex.join(["systemctl", "--user", *one]) for one in orders)
            click.echo(f"tooltap: systemd was not told ({reason}); where it runs, type: {commands}", err=True)
            return False
        click.echo(f"did systemctl --user {' '.join(order)}")
    return True


def _check(options: tuple[str, ...]) -> None:
    """Raises `click.UsageError` for what `serve` would not take, or would not find from where systemd starts it."""
    from tooltap.cli.manage.serve import command as serve

    context = serve.make_context("tooltap serve", list(options))
    _, rest, _ = serve.make_parser(context).parse_args(list(options))
    if rest:
        raise click.UsageError(f"{rest[0]!r} is no option of `tooltap serve`")
    for name in PATHS:
        value = str(context.params.get(name) or "/")
        place = value.removeprefix("sqlite:")
        if "://" not in value and not Path(place).expanduser().is_absolute():
            raise click.UsageError(f"a service knows no working folder: give --{name} {value} with its absolute path")


def _this_program() -> list[str]:
    script = Path(sys.argv[0]).absolute()
    if script.name == "tooltap" and os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-m", "tooltap.cli"]
