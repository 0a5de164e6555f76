"""Click commands and groups with examples at the end of their help."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Command", "Group"]


class Command(click.Command):
    """`examples`: shell command lines, exactly as a user types them."""

    def __init__(self, *arguments: Any, examples: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Group(Command, click.Group):
    command_class = Command
