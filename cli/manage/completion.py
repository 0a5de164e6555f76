"""`tooltap completion`: prints the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click

from tooltap.cli.common import COMPLETION_VARIABLE
from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.completion import SHELLS
from tooltap.cli.common.printing import say_text


@click.command(
    "completion",
    cls=Command,
    examples=(
        'eval "$(tooltap completion bash)"  # in ~/.bashrc',
        'eval "$(tooltap completion zsh)"  # in ~/.zshrc, after compinit',
        "tooltap completion fish > ~/.config/fish/completions/tooltap.fish",
    ),
)
@click.argument("shell", type=Choice(tuple(SHELLS)))
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
    say_text(SHELLS[shell](context.find_root().command, {}, "tooltap", COMPLETION_VARIABLE).source() + "\n")
