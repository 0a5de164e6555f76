"""`tooltap service`: installs the daemon as a service of systemd's user manager, or of launchd on macOS."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common.commands import Check, Group
from tooltap.cli.common.printing import say, say_text, short, warn
from tooltap.daemon.system.shell import shell_line

if TYPE_CHECKING:
    from tooltap.daemon.config import Config
    from tooltap.daemon.system.processes import Printed

TIMEOUT = 30.0
"""Seconds for each systemctl command."""
PATHS = ("config", "socket", "journal")
"""Options of `serve` that are or may be paths."""


@click.group(
    "service",
    cls=Group,
    examples=("tooltap service install", "tooltap service status"),
)
def command() -> None:
    """Install the daemon as a service that starts when you log in.

    It belongs to your systemd user manager, or on macOS to launchd, and restarts if it fails.
    """


@command.command(
    "install",
    context_settings={"ignore_unknown_options": True},
    examples=(
        "tooltap service install",
        "tooltap service install -- --follow claude,codex --backfill 7d",
        "tooltap service install --bare",
        "tooltap service install --print -- --journal sqlite:/var/tmp/tooltap.db",
    ),
)
@click.option("--print", "only_print", is_flag=True, help="Only print the unit, or on macOS the property list.")
@click.option("--bare", is_flag=True, help="Add no options: only those after `--` and your settings apply.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTION...]")
def install(only_print: bool, bare: bool, options: tuple[str, ...]) -> None:
    """Write the unit, and enable it for every login.

    Like `tooltap up`, the service follows all agents, reads what they have stored, and serves the page, as far as
    neither your settings nor the options say otherwise. Options after `--` are options of `tooltap serve`; installing
    again replaces them.

    The service runs this installation of tooltap, with the environment variables that locate files (TOOLTAP_SOCKET,
    TOOLTAP_TRACE, CODEX_HOME and so on). Under systemd it may write only to the folders of the socket, the
    journal, spools and traces: if you change these, install it again.
    """
    from tooltap.daemon.system.services import NAME, grants_namespaces, is_ours, unit, unit_path
    from tooltap.traces.recording.whole_file import write_whole

    given = _check(options)
    settings = _settings(given)
    command = [*_this_program(), "serve", *options, *(() if bare else _usual(given, settings))]
    if sys.platform == "darwin":
        _install_agent(command, only_print)
        return
    writable = _written_to(settings) if grants_namespaces() else None
    text = unit(command, os.environ, writable)
    if only_print:
        say_text(text)
        return
    path = unit_path()
    if path.exists() and not is_ours(path):
        raise click.ClickException(f"{path} was not written by tooltap; move it away first")
    try:
        for folder in (path.parent, *(writable or ())):  # what is missing when the service starts stays missing
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise click.ClickException(f"{error.filename or path} cannot be written: {error.strerror}") from None
    say(f"wrote {path}")
    if _run_systemctl(["daemon-reload"], ["enable", NAME]):
        say(f"start it now: systemctl --user restart {NAME}")
        say("to run it without a login: loginctl enable-linger")


@command.command("uninstall", examples=("tooltap service uninstall",))
def uninstall() -> None:
    """Stop the service, and remove its unit. The journal is not removed."""
    from tooltap.daemon.system import services

    if sys.platform == "darwin":
        path, is_ours = services.plist_path(), services.is_our_plist
    else:
        path, is_ours = services.unit_path(), services.is_ours
    if not path.exists():
        say(f"nothing to remove: {path} does not exist")
        return
    if not is_ours(path):
        raise click.ClickException(f"{path} was not written by tooltap; remove it yourself")
    if sys.platform == "darwin":
        path.unlink()
        say(f"removed {path}")
        say(f"stop it now: launchctl bootout gui/{os.getuid()}/{services.LABEL}")
        return
    stopped = _run_systemctl(["disable", "--now", services.NAME])
    path.unlink()
    say(f"removed {path}")
    if stopped:
        _run_systemctl(["daemon-reload"])


@command.command("status", cls=Check, examples=("tooltap service status",))
@click.pass_context
def status(context: click.Context) -> None:
    """Show whether the service is installed and running. Exit code 1 if it is not running."""
    from tooltap.daemon.system.services import LABEL, NAME, ask_systemctl, plist_path, unit_path

    if sys.platform == "darwin":
        path = plist_path()
        say(f"property list: {path if path.exists() else 'none; install it with `tooltap service install`'}")
        say(f"see whether it runs: launchctl print gui/{os.getuid()}/{LABEL}")
        context.exit(0 if path.exists() else 1)
    path = unit_path()
    say(f"unit: {path if path.exists() else 'none; install it with `tooltap service install`'}")
    active = ask_systemctl("is-active", NAME, timeout=TIMEOUT)
    enabled = ask_systemctl("is-enabled", NAME, timeout=TIMEOUT)
    say(f"now: {_state(active)}")
    say(f"at login: {_state(enabled)}")
    context.exit(0 if active is not None and active.code == 0 else 1)


def _state(answer: Printed | None) -> str:
    """The state in one word, or why it is unknown."""
    return "unknown, systemd is not available" if answer is None else short(answer.text)


def _run_systemctl(*commands: list[str]) -> bool:
    """Run the commands in order. If one fails, tell the user what to type, and return False."""
    from tooltap.daemon.system.services import ask_systemctl

    for command in commands:
        answer = ask_systemctl(*command, timeout=TIMEOUT)
        if answer is None or answer.code != 0:
            reason = "systemd is not running" if answer is None else _state(answer) or "systemctl does not answer"
            line = " && ".join(shell_line("systemctl", "--user", *one) for one in commands)
            warn(f"systemctl failed ({reason}); run it yourself: {line}")
            return False
        say(f"ran systemctl --user {' '.join(command)}")
    return True


def _check(options: tuple[str, ...]) -> dict[str, Any]:
    """Return the options by name. Raise `click.UsageError` for those that `serve` rejects, and for relative paths,
    which fail under systemd."""
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
    return context.params


def _usual(given: dict[str, Any], settings: Config) -> list[str]:
    """Return the options of `serve` that turn on following and the page, unless the given options or the settings
    decide about them."""
    options = []
    if given["follow"] is None and not settings.follow.agents:
        options += ["--follow", "all", *([] if given["backfill"] else ["--backfill", "all"])]
    if given["web"] is None and not settings.web.enabled:
        options.append("--web")
    return options


def _install_agent(command: list[str], only_print: bool) -> None:
    """Write the property list of launchd."""
    from tooltap.daemon.system.services import is_our_plist, plist, plist_path
    from tooltap.traces.recording.whole_file import write_whole

    text = plist(command, os.environ)
    if only_print:
        say_text(text)
        return
    path = plist_path()
    if path.exists() and not is_our_plist(path):
        raise click.ClickException(f"{path} was not written by tooltap; move it away first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise click.ClickException(f"{error.filename or path} cannot be written: {error.strerror}") from None
    say(f"wrote {path}; it starts at your next login")
    say(f"start it now: launchctl bootstrap gui/{os.getuid()} {shell_line(path)}")


def _settings(options: dict[str, Any]) -> Config:
    """Load the configuration that the daemon will have. Raises `click.UsageError`."""
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.system.paths import config_path

    config = options["config"] or (usual if (usual := config_path()).exists() else None)
    socket = options["socket"] and str(options["socket"])
    try:
        web = {"listen": options["web"]} if options["web"] else None
        settings = load_config(config, socket=socket, journal=options["journal"], web=web)
        _ = settings.journal_place
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return settings


def _written_to(settings: Config) -> list[Path]:
    """The folders that the daemon writes to."""
    from tooltap.daemon.system.paths import data_folder, spool_path
    from tooltap.traces.recording.writer import trace_path

    journal = settings.journal_place
    files = [settings.socket_path, settings.web.token_path]
    if isinstance(journal, Path):
        files.append(Path(os.path.realpath(journal.expanduser())))
    if (trace := trace_path(os.environ, datetime.now(UTC), os.getpid())) is not None:
        files.append(trace)
    folders = [Path(data_folder()), spool_path(), *(file.expanduser().absolute().parent for file in files)]
    return list(dict.fromkeys(folders))


def _this_program() -> list[str]:
    script = Path(sys.argv[0]).absolute()
    if script.name == "tooltap" and os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-m", "tooltap.cli"]
