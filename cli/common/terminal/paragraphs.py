"""Prints lines that may be long: wrapped on a terminal, whole in a pipe."""

from __future__ import annotations

from tooltap.cli.common.printing import at_terminal, joined, say
from tooltap.cli.common.terminal.columns import terminal_columns, wrapped

__all__ = ["say_wrapped"]


def say_wrapped(line: str) -> None:
    """On a terminal, what does not fit continues below, indented by two columns more."""
    if not at_terminal():
        say(line)
        return
    text = joined([line])
    hanging = len(text) - len(text.lstrip()) + 2
    for part in wrapped(text, terminal_columns(), hanging=hanging):
        say(part)
