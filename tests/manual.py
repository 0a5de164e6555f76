"""`make manual`: writes the manual page and the completion scripts that the package installs, from the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from tooltap import __version__
from tooltap.cli.common import COMPLETION_VARIABLE
from tooltap.cli.common.commands import Command
from tooltap.cli.common.completion import SHELLS
from tooltap.cli.subcommands import tooltap
from tooltap.traces.recording.whole_file import write_whole

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "packaging"
COMPLETIONS = {"bash": "tooltap", "zsh": "_tooltap", "fish": "tooltap.fish"}


def files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each file."""
    yield FOLDER / "tooltap.1", "\n".join(_page()) + "\n"
    for shell, name in COMPLETIONS.items():
        yield FOLDER / "completions" / name, SHELLS[shell](tooltap, {}, "tooltap", COMPLETION_VARIABLE).source() + "\n"


def _page() -> Iterator[str]:
    """Yield the lines of the manual page, for the `man` macros of roff."""
    context = click.Context(tooltap, info_name="tooltap")
    summary, _, rest = (tooltap.help or "").partition("\n\n")
    yield f'.TH TOOLTAP 1 "" "tooltap {__version__}" "User Commands"'
    yield from (".SH NAME", f"tooltap \\- {escaped(_sentence(summary).rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B tooltap", r"[\fIOPTION\fR]... \fICOMMAND\fR [\fIARGUMENT\fR]...")
    yield ".SH DESCRIPTION"
    yield from _text(rest)
    yield from _options(context)
    yield ".SH COMMANDS"
    yield from _commands(context)
    yield ".SH EXIT STATUS"
    yield from _list(
        ("0", "Done."),
        ("1", "The work failed, or a check found something."),
        ("2", "The usage or the configuration is wrong."),
        ("130", "It was interrupted by Ctrl-C."),
    )
    yield from (".SH EXAMPLES", *_examples(tooltap))


def _commands(parent: click.Context) -> Iterator[str]:
    """Yield each command, and the commands of that command after it."""
    group = parent.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        if command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=parent)
        usage = " ".join(command.collect_usage_pieces(context))
        yield f".SS {escaped(f'{context.command_path} {usage}'.rstrip())}"
        yield from _text(command.help or "")
        yield from _options(context)
        if isinstance(command, Command) and command.examples and not isinstance(command, click.Group):
            yield from (".PP", "Examples:", *_examples(command))
        if isinstance(command, click.Group):
            yield from _commands(context)


def _options(context: click.Context) -> Iterator[str]:
    """Yield each option and each argument that has a help text."""
    for one in context.command.params:
        if (record := one.get_help_record(context)) is not None and record[1]:
            yield from _list(record)


def _list(*entries: tuple[str, str]) -> Iterator[str]:
    for term, text in entries:
        yield from (".TP", f"\\fB{escaped(term)}\\fR", escaped(_sentence(text)))


def _examples(command: Command) -> Iterator[str]:
    yield from (".PP", ".RS 4", ".nf", *map(escaped, command.examples), ".fi", ".RE")


def _text(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of a help text; click keeps the lines of one that begins with `\b`."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            yield from (".PP", ".nf", *map(escaped, paragraph.split("\n")[1:]), ".fi")
        elif paragraph:
            yield from (".PP", escaped(_sentence(paragraph)))


def _sentence(text: str) -> str:
    return " ".join(text.split())


def escaped(line: str) -> str:
    """Escape what roff would take for a request, an escape or a typographic character."""
    text = line.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    text = text.replace("^", r"\(ha").replace("~", r"\(ti")
    text = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in text)
    return rf"\&{text}" if text.startswith(".") else text


def main() -> None:
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)


if __name__ == "__main__":
    main()
