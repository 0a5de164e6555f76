"""`tooltap completion`: what makes a shell complete our commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from tooltap.cli.common.commands import Command

__all__ = ["SHELLS", "command"]

VARIABLE = "_TOOLTAP_COMPLETE"
"""What click looks at to know that a shell asks."""


class _Fish(FishComplete):
    """The script of click 8.5 ends a name, or what is said of it, at its first comma."""

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

    To have it in every shell that you start, put its line below into the shell's own file; or write the script to where
    the shell looks for it when it is needed:

    \b
    bash  ~/.local/share/bash-completion/completions/tooltap
    zsh   a folder of $fpath, as _tooltap
    fish  ~/.config/fish/completions/tooltap.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "tooltap", VARIABLE).source())
