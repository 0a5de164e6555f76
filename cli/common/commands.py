"""Click commands and groups with examples at the end of their help, and suggestions for mistyped subcommands."""

from __future__ import annotations

from typing import Any

import click

from tooltap.cli.common.suggestions import did_you_mean

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}{did_you_mean(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)
