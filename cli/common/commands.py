"""Click commands with examples in their help, suggestions for mistyped words ("did you mean …"), and the error for an
optional dependency that is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown word: `; did you mean 'tail'?`, or an empty string."""
    from tooltap.daemon.did_you_mean import similar

    found = similar(word, known)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


class Choice(click.Choice[str]):
    """`click.Choice` that suggests similar values for a mistyped one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            sentence = error.message.rstrip(".")
            raise click.BadParameter(f"{sentence}{did_you_mean(str(value), self.choices)}", ctx, param) from None


class Command(click.Command):
    """Command whose help ends with `examples`: shell command lines, exactly as a user types them."""

    def __init__(self, *arguments: Any, examples: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = " or ".join(self._options_with(error.option_name.lstrip("-")))
            if not meant:
                raise
            raise click.UsageError(f"No such option {error.option_name!r}; did you mean {meant}?", ctx) from None

    def _options_with(self, value: str) -> Iterator[str]:
        """Yield the options that have such a value, with it: `--outcome failed`."""
        for one in self.params:
            if isinstance(one, click.Option) and isinstance(one.type, click.Choice) and value in one.type.choices:
                yield f"`{max(one.opts, key=len)} {value}`"

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Check(Command):
    """Command whose exit code is what it found. Where the reader closes the pipe, only the printing stops."""

    def invoke(self, ctx: click.Context) -> Any:
        from tooltap.cli.common.printing import outliving_readers  # `--help` does not wait for it

        with outliving_readers():
            return super().invoke(ctx)


class Group(Command, click.Group):
    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}{did_you_mean(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Wrap imports that need the packages of an extra, and say how to install one that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "tooltap").partition(".")[0] == "tooltap":
            raise
        from tooltap.daemon.system.optional_packages import how_to_install

        raise click.ClickException(f"{error.name} is not installed: {how_to_install(extra)}") from None
