"""`tooltap service`: installs the daemon as a service of systemd's user manager."""

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
"""Seconds for each systemctl command."""
LINUX_ONLY = "this system has no systemd; use its own mechanism to start `tooltap serve` at login"
PATHS = ("config", "socket", "journal")
"""Options of `serve` that are or may be paths."""


@click.group(
    "service",
    cls=Group,
    examples=("tooltap service install -- --follow claude,codex,gemini", "tooltap service status"),
)
def command() -> None:
    """Install the daemon as a systemd service.

    The service belongs to your user manager. It starts when you log in, and restarts if it fails.
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
@click.option("--print", "only_print", is_flag=True, help="Only print the unit.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTION...]")
def install(only_print: bool, options: tuple[str, ...]) -> None:
    """Write the unit, and enable it for every login.

    Options after `--` are options of `tooltap serve`; installing again replaces them. The service runs this
    installation of tooltap, with the environment variables that locate files (TOOLTAP_SOCKET, HAPPIER_STACK_TOOL_TRACE,
    CODEX_HOME and so on).
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
        raise click.ClickException(f"{path} was not written by tooltap; move it away first")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    click.echo(f"wrote {path}")
    if _run_systemctl(["daemon-reload"], ["enable", NAME]):
        click.echo(f"start it now: systemctl --user restart {NAME}")
        click.echo("to run it without a login: loginctl enable-linger")


@command.command("uninstall", examples=("tooltap service uninstall",))
def uninstall() -> None:
    """Stop the service, and remove its unit. The journal is not removed."""
    from tooltap.daemon.system.systemd import NAME, is_ours, unit_path

    path = unit_path()
    if not path.exists():
        click.echo(f"nothing to remove: {path} does not exist")
        return
    if not is_ours(path):
        raise click.ClickException(f"{path} was not written by tooltap; remove it yourself")
    stopped = _run_systemctl(["disable", "--now", NAME])
    path.unlink()
    click.echo(f"removed {path}")
    if stopped:
        _run_systemctl(["daemon-reload"])


@command.command("status", examples=("tooltap service status",))
@click.pass_context
def status(context: click.Context) -> None:
    """Show whether the service is installed and running. Exit code 1 if it is not running."""
    from tooltap.daemon.system.systemd import NAME, ask_systemctl, unit_path

    path = unit_path()
    click.echo(f"unit: {path if path.exists() else 'none; install it with `tooltap service install`'}")
    active = ask_systemctl("is-active", NAME, timeout=TIMEOUT)
    enabled = ask_systemctl("is-enabled", NAME, timeout=TIMEOUT)
    click.echo(f"now: {_state(active)}")
    click.echo(f"at login: {_state(enabled)}")
    context.exit(0 if active is not None and active.code == 0 else 1)


def _state(answer: Printed | None) -> str:
    """The state in one word, or why it is unknown."""
    return "unknown, systemd is not available" if answer is None else " ".join(answer.text.split())


def _run_systemctl(*commands: list[str]) -> bool:
    """Run the commands in order. If one fails, tell the user what to type, and return False."""
    from tooltap.daemon.system.systemd import ask_systemctl

    for command in commands:
        answer = ask_systemctl(*command, timeout=TIMEOUT)
        if answer is None or answer.code != 0:
            reason = "systemd is not running" if answer is None else _state(answer) or "systemctl does not answer"
            shell_line = " && ".join(shlex.join(["systemctl", "--user", *one]) for one in commands)
            click.echo(f"tooltap: systemctl failed ({reason}); run it yourself: {shell_line}", err=True)
            return False
        click.echo(f"ran systemctl --user {' '.join(command)}")
    return True


def _check(options: tuple[str, ...]) -> None:
    """Raise `click.UsageError` for options that `serve` rejects, and for relative paths, which fail under systemd."""
    from tooltap.cli.manage.serve import command as serve

    context = serve.make_context("tooltap serve", list(options))
    _, rest, _ = serve.make_parser(context).parse_args(list(options))
    if rest:
        raise click.UsageError(f"{rest[0]!r} is not an option of `tooltap serve`")
    for name in PATHS:
        value = str(context.params.get(name) or "/")
        path = value.removeprefix("sqlite:")
        if "://" not in value and not Path(path).expanduser().is_absolute():
            raise click.UsageError(
                f"--{name} {value} is a relative path, but a service has no working folder: use an absolute path"
            )


def _this_program() -> list[str]:
    script = Path(sys.argv[0]).absolute()
    if script.name == "tooltap" and os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-m", "tooltap.cli"]
