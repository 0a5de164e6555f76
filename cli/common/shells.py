"""How completions reach each shell.

What a completion prints becomes text on the terminal and words of a command line, one on a line. So a name that could
be more than a name is not offered, and a description is harmless and short.
"""

from __future__ import annotations

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from tooltap.daemon.system.harmless import one_line

__all__ = ["SHELLS", "VARIABLE"]

VARIABLE = "_TOOLTAP_COMPLETE"
"""The environment variable by which click recognises a request for completions."""
MAX_DESCRIPTION = 200
"""Code points of what is said about a completion."""
MAX_VALUE = 256
"""Characters of an offered name: nobody looks for a longer one."""


class _Harmless(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        offered = [item for item in super().get_completions(args, incomplete) if _is_plain(item.value)]
        for item in offered:
            item.help = item.help and one_line(item.help, MAX_DESCRIPTION)
        return offered


def _is_plain(value: str) -> bool:
    return len(value) <= MAX_VALUE and value.isprintable()


class _Bash(_Harmless, BashComplete):
    pass


class _Zsh(_Harmless, ZshComplete):
    pass


class _Fish(_Harmless, FishComplete):
    """Keeps commas in names and descriptions, at which the script of click 8.5 cuts them off."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
for _shell in SHELLS.values():
    add_completion_class(_shell)
