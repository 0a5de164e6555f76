"""`tooltap config`: checks the daemon's configuration."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.commands import Group
from tooltap.cli.common.printing import say, warn
from tooltap.daemon.formats import counted


class InvalidConfiguration(click.ClickException):
    exit_code = 2


@click.group("config", cls=Group, examples=("tooltap config check",))
def command() -> None:
    """Check the daemon's configuration."""


@command.command(
    "check",
    examples=(
        "tooltap config check",
        "tooltap config check tooltap.toml",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Check a configuration file.

    An error names its line and key. What is valid, but can hardly be meant, is said on standard error.

    FILE defaults to the file that a daemon without `--config` reads.
    """
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.system.paths import config_path
    from tooltap.daemon.views.rules import doubts

    file = file or config_path()
    try:
        config = load_config(file)
        _ = config.socket_path, config.journal_place
    except ConfigError as error:
        raise InvalidConfiguration(str(error)) from None
    for name, doubt in doubts(config.tools):
        warn(f"{file}: tools.{name}: {doubt}")
    say(f"{file} is valid: {_rules(len(config.tools))}")


def _rules(number: int) -> str:
    return f"it has rules for {counted(number, 'tool')}" if number else "it has no rules for tools"
