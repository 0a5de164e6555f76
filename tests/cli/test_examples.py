"""The help of every command ends with valid examples."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import click
import pytest

from tests.cli.command import here
from tooltap.cli.common.commands import Command, Group
from tooltap.cli.subcommands import tooltap
from tooltap.normalizers.catalog.registry import missing_flags

WIDTH = 88
"""Maximum length of an example, so that terminals need not wrap it."""
ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            child = command.get_command(click.Context(command), name)
            assert child is not None
            yield from walk(child, f"{path} {name}")


COMMANDS = dict(walk(tooltap, "tooltap"))


def examples(path: str) -> tuple[str, ...]:
    command = COMMANDS[path]
    assert isinstance(command, Command | Group)
    return command.examples


def calls(example: str) -> Iterator[list[str]]:
    """The arguments of each `tooltap` in a shell line, with file patterns expanded."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|<>();")
    lexer.whitespace_split = True
    words: list[list[str]] = [[]]
    for token in lexer:
        if token == "|":
            words.append([])
        elif token in (">", "<"):
            next(lexer)
        else:
            words[-1] += sorted(glob(token)) or [token]
    for call in words:
        while ASSIGNMENT.fullmatch(call[0]):
            call = call[1:]
        for word in call:
            for inner in re.findall(r"\$\((.*?)\)", word):
                yield from calls(inner)
        if call[0] == "tooltap":
            yield call[1:]


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files and folders that the examples name."""
    for folder in ("recordings", "traces", "fixtures", "baselines", "docs"):
        (tmp_path / folder).mkdir()
    for file in ("claude.jsonl", "trace.jsonl", "recordings/claude.jsonl", "traces/one.jsonl", "tooltap.toml"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_examples(path: str) -> None:
    named = [" ".join(["tooltap", *call]) for example in examples(path) for call in calls(example)]

    assert named
    assert all(f"{one} ".startswith(f"{path} ") for one in named)
    assert max(map(len, examples(path))) <= WIDTH


@pytest.mark.parametrize("path", COMMANDS)
def test_help_ends_with_examples(path: str) -> None:
    _, head, shown = here(*path.split()[1:], "--help").stdout.decode().partition("\nExamples:\n")

    assert head
    assert tuple(line.strip() for line in shown.splitlines()) == examples(path)


@pytest.mark.usefixtures("recordings")
@pytest.mark.parametrize("example", sorted({one for path in COMMANDS for one in examples(path)}))
def test_every_example_parses(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example is really parsed; only the callbacks are replaced."""
    done: list[dict[str, object]] = []
    for command in COMMANDS.values():
        monkeypatch.setattr(command, "callback", lambda **given: done.append(given))
    for call in calls(example):
        tooltap.main(call, prog_name="tooltap", standalone_mode=False)

        assert done
        if call[0] in ("run", "proxy"):
            agent = done[-1]["command"]
            assert isinstance(agent, tuple)
            assert missing_flags(agent) is None
