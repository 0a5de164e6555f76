"""`tooltap completion`: prints the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from tooltap.cli.common.commands import Command

__all__ = ["SHELLS", "command"]

VARIABLE = "_TOOLTAP_COMPLETE"
"""The environment variable by which click recognises a request for completions."""


class _Fish(FishComplete):
    """Keeps commas in names and descriptions, at which the script of click 8.5 cuts them off."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": _Fish}


@click.command(
    "completion",
    cls=Command,
    examples=(
        'eval "$(tooltap completion bash)"  # in ~/.bashrc',
        'eval "$(tooltap completion zsh)"  # in ~/.zshrc, after compinit',
        "tooltap completion fish > ~/.config/fish/completions/tooltap.fish",
    ),
)
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a shell's completion script.

    To enable it in every new shell, add the shell's line from the examples to its startup file, or write the script to
    the place from which the shell loads completions on demand:

    \b
    bash  ~/.local/share/bash-completion/completions/tooltap
    zsh   a folder of $fpath, as _tooltap
    fish  ~/.config/fish/completions/tooltap.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "tooltap", VARIABLE).source())
