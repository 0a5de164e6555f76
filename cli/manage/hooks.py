"""`tooltap hooks`: writes the hooks that run `tooltap hook` into the settings of agents."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.commands import Choice, Group
from tooltap.cli.common.printing import say, say_text, warn

if TYPE_CHECKING:
    from tooltap.daemon.taps.hooks.settings import Change, HookSettings

AGENTS = ("claude", "codex", "copilot", "gemini", "qwen")

_agents = click.argument("agents", nargs=-1, type=Choice(AGENTS), metavar="[AGENT]...")
_yes = click.option("--yes", is_flag=True, help="Write without asking.")


@click.group("hooks", cls=Group, examples=("tooltap hooks status", "tooltap hooks install claude"))
def command() -> None:
    """Let agents ask you through tooltap: install hooks in their settings.

    A hook tells the daemon what the agent asks, so that `tooltap waiting` and the page show it. In Claude Code it can
    also be answered there, while the agent's own dialog stays usable; in Codex, Copilot and Qwen Code while you are
    away (`tooltap away`).
    """


@command.command("install", examples=("tooltap hooks install", "tooltap hooks install claude --yes"))
@_agents
@_yes
def install(agents: tuple[str, ...], yes: bool) -> int:
    """Add the hooks to the user's settings of these agents, or of all that are found.

    It shows the changes, and asks. Everything else in the files stays as it is; a copy of each file is kept beside it.
    """
    from tooltap.daemon.taps.hooks.settings import SettingsError

    changes, settings = [], _settings(agents)
    if not any(one.is_found for one in settings):
        raise click.ClickException(f"found neither the program nor the settings of {_or(settings)}")
    for one in settings:
        if not one.is_found:
            if agents:
                warn(f"{one.agent} is not found")
            continue
        try:
            changes.append(one.install())
        except SettingsError as error:
            raise click.ClickException(str(error)) from None
    code = _make(changes, "the hooks are installed", yes=yes)
    for one in _settings(agents):
        for remark in _remarks(one) if one.is_found and code == 0 else ():
            say(remark)
    return code


@command.command("uninstall", examples=("tooltap hooks uninstall", "tooltap hooks uninstall codex"))
@_agents
@_yes
def uninstall(agents: tuple[str, ...], yes: bool) -> int:
    """Remove what `install` has added, and nothing else."""
    from tooltap.daemon.taps.hooks.settings import SettingsError

    try:
        changes = [one.uninstall() for one in _settings(agents)]
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    return _make(changes, "no hooks are installed", yes=yes)


@command.command("status", examples=("tooltap hooks status",))
@_agents
def status(agents: tuple[str, ...]) -> None:
    """Say for each agent whether its hooks are installed, and what it demands before it runs them."""
    from tooltap.daemon.taps.hooks.settings import SettingsError

    for one in _settings(agents):
        try:
            state = one.state()
            say(f"{one.agent}: {state}" + (f" in {one.path}" if state in ("installed", "partly") else ""))
            if state in ("installed", "partly"):
                for remark in one.remarks():
                    say(f"  {remark}")
        except SettingsError as error:
            say(f"{one.agent}: {error}")


def _settings(agents: tuple[str, ...]) -> list[HookSettings]:
    from pathlib import Path

    from tooltap.daemon.taps.hooks.settings import hook_settings

    script = Path(sys.argv[0]).absolute()
    is_script = script.name == "tooltap" and os.access(script, os.X_OK)
    program = (str(script),) if is_script else (sys.executable, "-m", "tooltap.cli")
    return hook_settings(agents, program, os.environ, Path.home())


def _or(settings: list[HookSettings]) -> str:
    *others, last = (one.agent for one in settings)
    return f"{', '.join(others)} or {last}" if others else last


def _remarks(one: HookSettings) -> list[str]:
    from tooltap.daemon.taps.hooks.settings import SettingsError

    try:
        return list(one.remarks())
    except SettingsError:
        return []


def _make(changes: list[Change], done: str, *, yes: bool) -> int:
    """Show the changes, ask, and make them. Returns the exit code."""
    from tooltap.daemon.taps.hooks.settings import SettingsError, write

    changes = [one for one in changes if not one.is_none]
    if not changes:
        say(done)
        return 0
    for one in changes:
        say_text(_difference(one))
    if not yes and not click.confirm("Write this?", err=True):
        return 1
    for one in changes:
        try:
            backup = write(one)
        except SettingsError as error:
            raise click.ClickException(str(error)) from None
        kept = "" if backup is None else f"; the file as it was is {backup}"
        say(f"{'removed' if one.after is None else 'wrote'} {one.path}{kept}")
    return 0


def _difference(change: Change) -> str:
    from difflib import unified_diff

    before, after = (text.splitlines() if text else [] for text in (change.before, change.after))
    return "".join(f"{line}\n" for line in unified_diff(before, after, str(change.path), str(change.path), lineterm=""))
